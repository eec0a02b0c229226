#include "tests/cuda_emulation/races.h"

#include <utility>

#include "kernels/base/error.h"
#include "tests/cuda_emulation/emulation.h"

extern char __data_start, _end, __executable_start;  // the linker's

namespace octet::emulation {
namespace {

constexpr uintptr_t page_bytes = 4096;

uint32_t block_number() { return block_index.x + grid_size.x * (block_index.y + grid_size.y * block_index.z); }

bool in_static_memory(const void* address) { return address >= &__data_start && address < &_end; }

}  // namespace

RaceDetector::RaceDetector() : before_(observer) { observer = this; }
RaceDetector::~RaceDetector() { observer = before_; }

void RaceDetector::device_memory(const void* address, size_t bytes, bool present) {
  const std::lock_guard lock(mutex_);
  const uintptr_t first = reinterpret_cast<uintptr_t>(address) / page_bytes;
  for (uintptr_t page = first; page < first + (bytes + page_bytes - 1) / page_bytes; ++page) {
    if (present)
      device_.insert(page);
    else
      device_.erase(page);
    pages_.erase(page);
  }
  last_page_ = {};
}

RaceDetector::Page& RaceDetector::page_of(uintptr_t address) {
  const uintptr_t page = address / page_bytes;
  if (last_page_.second == nullptr || last_page_.first != page) {
    std::unique_ptr<Page>& own = pages_[page];
    if (own == nullptr) own = std::make_unique<Page>();
    last_page_ = {page, own.get()};
  }
  return *last_page_.second;
}

void RaceDetector::arrive(const void* counter, bool last) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(launch_, launches) != launches) arrivals_.clear(), known_to_.clear();
  Arrivals& arrivals = arrivals_[counter];
  if (!last) {
    arrivals[block_number()] = thread->barriers;
    return;
  }
  Arrivals& known = known_to_[block_number()];
  for (const auto& [block, barriers] : std::exchange(arrivals, {})) known[block] = std::max(known[block], barriers);
}

// Whether the other block used memory before it arrived at a counter where this block was the last one.
bool RaceDetector::came_before(const Access& before, const Access& now) const {
  const auto known = known_to_.find(now.block);
  if (launch_ != now.launch || known == known_to_.end()) return false;
  const auto arrived = known->second.find(before.block);
  return arrived != known->second.end() && before.barriers <= arrived->second;
}

// Threads of a block are ordered by its barriers, those of a warp also by what the warp does together.
bool RaceDetector::ordered(const Access& before, const Access& now, bool shared) const {
  if (before.launch != now.launch) return true;
  if (before.use == Use::atomic && now.use == Use::atomic) return true;
  if (before.block != now.block) return shared || came_before(before, now);  // every block has its own shared memory
  return before.thread == now.thread || before.barriers < now.barriers ||
         (before.thread / 32 == now.thread / 32 && before.collectives < now.collectives);
}

void RaceDetector::access(const void* address, size_t bytes, Use use, const void* code) {
  if (thread == nullptr) return;
  const std::lock_guard lock(mutex_);
  const uintptr_t first = reinterpret_cast<uintptr_t>(address);
  const bool shared = in_static_memory(address);
  if (!shared && !device_.contains(first / page_bytes)) return;
  ++accesses_;
  const Access now{launches, block_number(), thread->barriers, thread->collectives, thread->linear, use, code};
  for (uintptr_t at = first; at < first + bytes; ++at) {
    Byte& byte = page_of(at)[at % page_bytes];
    for (const Access& write : {byte.write, byte.atomic})
      if (!ordered(write, now, shared)) report(use == Use::read ? "reads what" : "writes what", write, now, shared);
    if (use == Use::read) {
      Access& first_read = byte.reads[0];
      const bool after_it = first_read.block == now.block && ordered(first_read, now, shared);
      (first_read.launch != now.launch || after_it ? first_read : byte.reads[1]) = now;
      continue;
    }
    for (const Access& read : byte.reads)
      if (!ordered(read, now, shared)) report("overwrites what", read, now, shared);
    const bool of_others = use == Use::atomic && byte.write.use == Use::atomic && byte.write.launch == now.launch;
    const Access atomic = !of_others ? Access{} : byte.write.block != now.block ? byte.write : byte.atomic;
    byte = {now, atomic, {}};
  }
}

void RaceDetector::report(const char* what, const Access& before, const Access& now, bool shared) {
  if (!told_.emplace(before.code, now.code).second) return;
  const auto place = [](const Access& access) {
    std::ostringstream text;
    text << "block " << access.block << " thread " << access.thread << " (0x" << std::hex
         << static_cast<const char*>(access.code) - &__executable_start << ")";
    return text.str();
  };
  races_.push_back(say("kernel ", kernel_name, ", ", shared ? "shared" : "device", " memory: ", place(now), " ", what,
                       " ", place(before), " used, with no barrier between them"));
}

}  // namespace octet::emulation

// What -fsanitize=thread makes of loads and stores.
#define OCTET_ACCESS(name, bytes, use)                                                                             \
  void name(void* address) {                                                                                       \
    if (octet::emulation::observer != nullptr)                                                                     \
      octet::emulation::observer->access(address, bytes, octet::emulation::Use::use, __builtin_return_address(0)); \
  }
#define OCTET_ACCESSES(bytes)                             \
  OCTET_ACCESS(__tsan_read##bytes, bytes, read)           \
  OCTET_ACCESS(__tsan_write##bytes, bytes, write)         \
  OCTET_ACCESS(__tsan_unaligned_read##bytes, bytes, read) \
  OCTET_ACCESS(__tsan_unaligned_write##bytes, bytes, write)
#define OCTET_RANGE(name, use)                                                                                     \
  void name(void* address, size_t bytes) {                                                                         \
    if (octet::emulation::observer != nullptr)                                                                     \
      octet::emulation::observer->access(address, bytes, octet::emulation::Use::use, __builtin_return_address(0)); \
  }
extern "C" {
OCTET_ACCESSES(1)
OCTET_ACCESSES(2)
OCTET_ACCESSES(4)
OCTET_ACCESSES(8)
OCTET_ACCESSES(16)
OCTET_RANGE(__tsan_read_range, read)
OCTET_RANGE(__tsan_write_range, write)
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void*, void*) {}
void __tsan_vptr_read(void*) {}
}
