// What the backend asks of the CUDA runtime; emulation/runtime.cpp answers on the host.
#pragma once
#include <cstddef>
#include <string>

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

// After a launch: throws an Error that names the kernel when it failed.
void check_launch(const char* kernel, Stream);

}  // namespace octet::cuda
