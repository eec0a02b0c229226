// The CUDA runtime of the emulated build: the device is the host, and every call is over when it returns. Its memory
// lies in pages that are closed to everything but kernels and copies while protect_device_memory(true) holds, so that
// host code that follows a device pointer faults, as it would with a GPU.
#include "kernels/cuda/runtime.h"

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <new>

#include "kernels/cuda/emulation/device_memory.h"

namespace octet::cuda {
namespace {

std::map<void*, size_t> regions;
bool closed = false;
int openings = 0;

void set_access(int access) {
  for (const auto& [memory, bytes] : regions) mprotect(memory, bytes, access);
}

}  // namespace

void protect_device_memory(bool protect) {
  closed = protect;
  set_access(protect ? PROT_NONE : PROT_READ | PROT_WRITE);
}
OpenDeviceMemory::OpenDeviceMemory() {
  if (openings++ == 0 && closed) set_access(PROT_READ | PROT_WRITE);
}
OpenDeviceMemory::~OpenDeviceMemory() {
  if (--openings == 0 && closed) set_access(PROT_NONE);
}

Device open_device(int) { return {"emulated", 8, 0, 4, size_t{1} << 30, size_t{1} << 30}; }
Stream make_stream(bool) { return {}; }
void destroy_stream(Stream) {}

void* allocate_device(size_t bytes) {
  constexpr size_t page = 4096;
  const size_t rounded = (bytes + page - 1) / page * page + page;
  void* const memory = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  std::memset(memory, 0xFF, bytes);  // NaN, so that nothing relies on what it holds
  regions[memory] = rounded;
  if (closed) mprotect(memory, rounded, PROT_NONE);
  return memory;
}
void release(void* memory) {
  const auto found = regions.find(memory);
  if (found == regions.end()) return;
  munmap(memory, found->second);
  regions.erase(found);
}
size_t free_bytes() { return size_t{1} << 30; }

void copy_to_device(void* to, const void* from, size_t bytes, Stream) {
  const OpenDeviceMemory open;
  std::memcpy(to, from, bytes);
}
void copy_to_host(void* to, const void* from, size_t bytes, Stream) {
  const OpenDeviceMemory open;
  std::memcpy(to, from, bytes);
}
void fill_zero(void* to, size_t bytes, Stream) {
  const OpenDeviceMemory open;
  std::memset(to, 0, bytes);
}
void synchronize(Stream) {}
void check_launch(const char*, Stream) {}

}  // namespace octet::cuda
