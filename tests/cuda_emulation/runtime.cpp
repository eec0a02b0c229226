// The CUDA runtime of the emulated build: the device is the host, and every call is over when it returns. Its memory
// lies in guarded pages, which are closed to everything but kernels and copies while protect_device_memory(true) holds,
// so that host code that follows a device pointer faults, as it would with a GPU.
#include "kernels/cuda/runtime.h"

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "kernels/base/error.h"
#include "tests/cuda_emulation/device_memory.h"
#include "tests/cuda_emulation/emulation.h"
#include "tests/cuda_emulation/observer.h"
#include "tests/memory/guarded.h"

namespace octet::cuda {
namespace {

using emulation::recording;

// Where an event lies in a program that is recorded.
struct Mark {
  const emulation::Program* program = nullptr;
  const void* stream = nullptr;
  int uses = 0;
};

std::mutex mutex;                                                       // guards all below: ranks may be threads
std::map<void*, std::unique_ptr<const test::GuardedMemory>> allocated;  // by the allocation's address
bool closed = false;
int openings = 0;

// As the runtime would.
void require_not_recording(const char* what) {
  REQUIRE(recording == nullptr, "do it before or after", what, " while a program is recorded");
}

void copy_in_order(void* to, const void* from, size_t bytes, Stream stream) {
  const auto copy = [=] {
    const OpenDeviceMemory open;
    std::memcpy(to, from, bytes);
  };
  if (!emulation::record(stream.handle, copy)) copy();
}
void set_access(const test::GuardedMemory& memory, int access) {
  mprotect(memory.pages(), memory.page_bytes(), access);
}
void set_access(int access) {
  for (const auto& [address, memory] : allocated) set_access(*memory, access);
}

}  // namespace

void protect_device_memory(bool protect) {
  const std::lock_guard lock(mutex);
  closed = protect;
  set_access(protect ? PROT_NONE : PROT_READ | PROT_WRITE);
}
OpenDeviceMemory::OpenDeviceMemory() {
  const std::lock_guard lock(mutex);
  if (openings++ == 0 && closed) set_access(PROT_READ | PROT_WRITE);
}
OpenDeviceMemory::~OpenDeviceMemory() {
  const std::lock_guard lock(mutex);
  if (--openings == 0 && closed) set_access(PROT_NONE);
}

Device open_device(int, bool) { return {"emulated", 8, 0, 4, size_t{1} << 30, size_t{1} << 30}; }
Stream make_stream(KernelClock* clock) { return {new char, clock}; }
void destroy_stream(Stream stream) { delete static_cast<char*>(stream.handle); }

void* allocate_device(size_t bytes) {
  require_not_recording("an allocation");
  constexpr size_t alignment = 64;                                                    // that a Buffer promises
  auto memory = std::make_unique<const test::GuardedMemory>(bytes, alignment, 0xFF);  // NaN, on which nothing may rely
  void* const address = memory->data();
  const std::lock_guard lock(mutex);
  if (emulation::observer != nullptr) emulation::observer->device_memory(memory->pages(), memory->page_bytes(), true);
  if (closed && openings == 0) set_access(*memory, PROT_NONE);
  allocated[address] = std::move(memory);
  return address;
}
void release(void* address) {
  const std::lock_guard lock(mutex);
  const auto found = allocated.find(address);
  if (found == allocated.end()) return;
  const test::GuardedMemory& memory = *found->second;
  if (emulation::observer != nullptr) emulation::observer->device_memory(memory.pages(), memory.page_bytes(), false);
  set_access(memory, PROT_READ | PROT_WRITE);  // what lies beside it is read once more
  allocated.erase(found);
}
void* allocate_pinned(size_t bytes) {
  require_not_recording("an allocation");
  return ::operator new(bytes);
}
void release_pinned(void* memory) { ::operator delete(memory); }
size_t free_bytes() { return size_t{1} << 30; }

void copy_to_device(void* to, const void* from, size_t bytes, Stream) {
  require_not_recording("a copy from the host's memory");
  const OpenDeviceMemory open;
  std::memcpy(to, from, bytes);
}
void copy_to_host(void* to, const void* from, size_t bytes, Stream) {
  require_not_recording("a copy to the host's memory");
  const OpenDeviceMemory open;
  std::memcpy(to, from, bytes);
}
void copy_to_pinned(void* to, const void* from, size_t bytes, Stream stream) { copy_in_order(to, from, bytes, stream); }
void copy_from_pinned(void* to, const void* from, size_t bytes, Stream stream) {
  copy_in_order(to, from, bytes, stream);
}
void call_host(void (*function)(void*), void* argument, Stream stream) {
  const auto call = [=] { function(argument); };
  if (!emulation::record(stream.handle, call)) call();
}
void copy_on_device(void* to, const void* from, size_t bytes, Stream) {
  require_not_recording("a copy beside it");
  const OpenDeviceMemory open;
  std::memcpy(to, from, bytes);
}
void fill_zero(void* to, size_t bytes, Stream stream) {
  const auto fill = [=] {
    const OpenDeviceMemory open;
    std::memset(to, 0, bytes);
  };
  if (!emulation::record(stream.handle, fill)) fill();
}
void synchronize(Stream) { require_not_recording("waiting"); }
bool idle(Stream) {
  require_not_recording("a question");
  return true;
}
Event make_event() { return {new Mark}; }
void destroy_event(Event event) { delete static_cast<Mark*>(event.handle); }
void record(Event event, Stream stream) {
  Mark& mark = *static_cast<Mark*>(event.handle);
  mark = {};
  if (recording == nullptr || !recording->holds(stream.handle)) return;
  mark = {recording, stream.handle, recording->uses(stream.handle)};
}
void wait_for(Event event, Stream stream) {
  const Mark& mark = *static_cast<Mark*>(event.handle);
  if (recording == nullptr) return;
  REQUIRE(mark.program == recording, "record it in a stream that takes part",
          "an event that is not recorded is waited for while a program is");
  recording->wait(stream.handle, mark.stream, mark.uses);
}
void check_launch(const char* kernel, const void*, Stream stream) {
  if (recording != nullptr) recording->use(stream.handle);
  if (stream.clock != nullptr) stream.clock->stop(kernel, stream);
}
KernelClock::KernelClock() = default;
KernelClock::~KernelClock() = default;
void KernelClock::start(Stream) {}
void KernelClock::stop(const std::string& kernel, Stream) { add(kernel, 0); }  // the host's time would say nothing

void begin_recording(Stream stream) { recording = new emulation::Program(stream.handle); }
Recording end_recording(Stream) {
  Recording made(std::exchange(recording, nullptr));
  static_cast<emulation::Program*>(made.handle())->require_joined();
  return made;
}
void abandon_recording(Stream) { delete std::exchange(recording, nullptr); }
Recording::~Recording() { delete static_cast<emulation::Program*>(handle_); }
void Recording::play(Stream) const { static_cast<const emulation::Program*>(handle_)->play(); }

}  // namespace octet::cuda
