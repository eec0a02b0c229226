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
  KernelClock* clock = nullptr;  // set: the host waits for each kernel, so that an error names its kernel
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
  int index = 0;  // among the GPUs that this process sees
};

// Chooses the device of this process. share: as CudaOptions has it. Errors say whether driver, device or architecture
// is missing.
Device open_device(int index, bool share);
Stream make_stream(KernelClock*);
void destroy_stream(Stream);

void* allocate_device(size_t bytes);  // contents undefined
void release(void*);                  // waits for the kernels that use it
void* allocate_pinned(size_t bytes);  // host memory: copies from it to the device do not block the host
void release_pinned(void*);
size_t free_bytes();

// `from` may change after the call unless it is pinned memory.
void copy_to_device(void* to, const void* from, size_t bytes, Stream);
void copy_to_host(void* to, const void* from, size_t bytes, Stream);  // waits
// Between pinned memory and the device, in the stream's order; the host does not wait.
void copy_to_pinned(void* to, const void* from, size_t bytes, Stream);
void copy_from_pinned(void* to, const void* from, size_t bytes, Stream);
// Calls function(argument) on the host, in the stream's order. The function calls nothing of CUDA and does not throw.
void call_host(void (*function)(void*), void* argument, Stream);
void copy_on_device(void* to, const void* from, size_t bytes, Stream);
void fill_zero(void* to, size_t bytes, Stream);
void synchronize(Stream);
bool idle(Stream);  // whether all work enqueued so far is done; does not wait

// A mark in one stream that another stream can wait for; the host never waits for it.
struct Event {
  void* handle = nullptr;
};
Event make_event();
void destroy_event(Event);
void record(Event, Stream);    // after all work enqueued so far; replaces an earlier mark
void wait_for(Event, Stream);  // work enqueued next runs after the mark

// Between begin_recording() and end_recording() launches, copies within the device and between it and pinned memory,
// fills and calls of the host are recorded, not executed, on this stream and on streams that wait for it. It must wait
// for those before the end. Memory must not be allocated, and other memory of the host must not be read.
void begin_recording(Stream);
class Recording {  // a recorded program, or null
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
  void play(Stream) const;  // enqueues the program

 private:
  void* handle_ = nullptr;
};
Recording end_recording(Stream);
void abandon_recording(Stream);  // ends a recording and keeps nothing; no error

// Called before and after a launch. check_launch() throws an Error that names a kernel that failed. function: the
// kernel's address, or null.
inline void begin_launch(Stream stream) {
  if (stream.clock != nullptr) stream.clock->start(stream);
}
void check_launch(const char* kernel, const void* function, Stream);

}  // namespace octet::cuda
