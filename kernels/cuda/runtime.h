// What the backend uses of the CUDA runtime. tests/cuda_emulation/runtime.cpp implements it on the host.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.h"

namespace octet::cuda {

class KernelClock;
struct Stream {
  void* handle = nullptr;
  KernelClock* clock =
      nullptr;  // where there is one, the host waits for each kernel: an error names the one that made it
};

// The time of each kernel, by name.
class KernelClock {
 public:
  KernelClock();
  ~KernelClock();
  KernelClock(const KernelClock&) = delete;
  KernelClock& operator=(const KernelClock&) = delete;
  void start(Stream);
  void stop(const std::string& kernel, Stream);  // waits
  std::vector<KernelTime> times() const { return times_; }

 private:
  void add(const std::string& kernel, double seconds) {
    const auto own = std::find_if(times_.begin(), times_.end(), [&](const KernelTime& t) { return t.name == kernel; });
    KernelTime& time = own != times_.end() ? *own : times_.emplace_back(KernelTime{kernel});
    ++time.calls;
    time.seconds += seconds;
  }
  void *start_ = nullptr, *end_ = nullptr;
  std::vector<KernelTime> times_;
};

struct Device {
  std::string name;  // "NVIDIA H200"
  int major = 0, minor = 0;
  int processors = 0;  // streaming multiprocessors
  size_t free_bytes = 0, total_bytes = 0;
};

// Chooses the device for this process. Errors say what is missing: driver, device, architecture.
Device open_device(int index);
Stream make_stream(KernelClock*);
void destroy_stream(Stream);

void* allocate_device(size_t bytes);  // contents undefined
void release(void*);                  // waits for the kernels that use it
void* allocate_pinned(size_t bytes);  // of the host: copies to the device do not hold it up
void release_pinned(void*);
size_t free_bytes();

void copy_to_device(void* to, const void* from, size_t bytes,
                    Stream);  // `from` may change after the call, but not pinned memory
void copy_to_host(void* to, const void* from, size_t bytes, Stream);  // waits
void copy_on_device(void* to, const void* from, size_t bytes, Stream);
void fill_zero(void* to, size_t bytes, Stream);
void synchronize(Stream);
bool idle(Stream);  // whether all that it was asked so far is done; does not wait

// A mark in one stream that another can be told to wait for; the host never does.
struct Event {
  void* handle = nullptr;
};
Event make_event();
void destroy_event(Event);
void record(Event, Stream);    // after all that the stream was asked so far; an earlier mark is forgotten
void wait_for(Event, Stream);  // what the stream is asked next comes after the mark

// What is launched, copied within the device and filled between these two calls is written down and not done, on this
// stream and on those that wait for it meanwhile; it must wait for them before the end. Neither may memory be allocated
// nor the host's be read between them.
void begin_recording(Stream);
class Recording {  // of a program; null: none
 public:
  Recording() = default;
  explicit Recording(void* handle) : handle_(handle) {}
  Recording(Recording&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Recording& operator=(Recording&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Recording();
  explicit operator bool() const { return handle_ != nullptr; }
  void* handle() const { return handle_; }
  void play(Stream) const;  // does it all, in the stream's order

 private:
  void* handle_ = nullptr;
};
Recording end_recording(Stream);
void abandon_recording(Stream);  // instead: nothing is kept, and no error

// Around a launch: the second throws an Error that names the kernel when it failed. function: its address, or null.
inline void begin_launch(Stream stream) {
  if (stream.clock != nullptr) stream.clock->start(stream);
}
void check_launch(const char* kernel, const void* function, Stream);

}  // namespace octet::cuda
