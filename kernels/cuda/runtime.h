// What the backend asks of the CUDA runtime; emulation/runtime.cpp answers on the host.
#pragma once
#include <cstddef>
#include <string>
#include <utility>

namespace octet::cuda {

struct Stream {
  void* handle = nullptr;
  bool check_every_kernel = false;  // wait after each, so that an error names the kernel that made it
};

struct Device {
  std::string name;  // "NVIDIA H200"
  int major = 0, minor = 0;
  int processors = 0;  // streaming multiprocessors
  size_t free_bytes = 0, total_bytes = 0;
};

// Chooses the device for this process. Errors say what is missing: driver, device, architecture.
Device open_device(int index);
Stream make_stream(bool check_every_kernel);
void destroy_stream(Stream);

void* allocate_device(size_t bytes);  // contents undefined
void release(void*);                  // waits for the kernels that use it
size_t free_bytes();

void copy_to_device(void* to, const void* from, size_t bytes, Stream);  // `from` may change after the call
void copy_to_host(void* to, const void* from, size_t bytes, Stream);    // waits
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

// What is launched, copied within the device and filled between these two calls is written down and not done. Neither
// may memory be allocated nor the host's be read between them.
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
  void play(Stream) const;  // does it all, in the stream's order

 private:
  void* handle_ = nullptr;
};
Recording end_recording(Stream);

// After a launch: throws an Error that names the kernel when it failed.
void check_launch(const char* kernel, Stream);

}  // namespace octet::cuda
