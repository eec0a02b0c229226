// Finds races of emulated kernels, as compute-sanitizer's racecheck does on a GPU: two threads that use a byte of
// shared or device memory, one of them writing it, with no barrier between them. Of two blocks of a launch, only the
// last one to arrive at a counter comes after others (last_to_arrive() in kernels/cuda/primitives.h). The kernels must
// be compiled with -fsanitize=thread, whose calls arrive here instead of in the compiler's own library. Atomic
// operations do not race with each other. Shared memory is what the program holds in static variables.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/cuda_emulation/observer.h"

namespace octet::emulation {

class RaceDetector final : public Observer {
 public:
  RaceDetector();  // watches while it lives
  ~RaceDetector() override;
  RaceDetector(const RaceDetector&) = delete;
  RaceDetector& operator=(const RaceDetector&) = delete;

  // One message for each pair of places in the code; `addr2line -Cfe PROGRAM OFFSET` names the line.
  const std::vector<std::string>& races() const { return races_; }
  int64_t accesses() const { return accesses_; }

  void access(const void* address, size_t bytes, Use, const void* code) override;
  void arrive(const void* counter, bool last) override;
  void device_memory(const void* address, size_t bytes, bool present) override;

 private:
  struct Access {
    uint32_t launch = 0, block = 0;  // launches are counted from 1: 0 is none
    uint32_t barriers = 0, collectives = 0;
    uint32_t thread = 0;
    Use use = Use::read;
    const void* code = nullptr;
  };
  struct Byte {
    Access write;
    Access atomic;    // the last atomic operation of another block than `write`, where that is one, too
    Access reads[2];  // two readers are enough: a third one is ordered as one of them, or races as well
  };
  using Page = std::array<Byte, 4096>;

  using Arrivals = std::unordered_map<uint32_t, uint32_t>;  // by block: the barriers that it had passed

  Page& page_of(uintptr_t address);
  bool came_before(const Access& before, const Access& now) const;
  bool ordered(const Access& before, const Access& now, bool shared) const;
  void report(const char* what, const Access& before, const Access& now, bool shared);

  Observer* const before_;
  std::mutex mutex_;  // guards all below: ranks may be threads, one of which runs a kernel while others allocate
  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages_;  // of device and shared memory, by address / 4096
  std::pair<uintptr_t, Page*> last_page_{};
  std::set<uintptr_t> device_;                          // pages
  uint32_t launch_ = 0;                                 // that the next two are of
  std::unordered_map<const void*, Arrivals> arrivals_;  // by counter
  std::unordered_map<uint32_t, Arrivals> known_to_;     // by block that was the last one of a counter
  std::set<std::pair<const void*, const void*>> told_;
  std::vector<std::string> races_;
  int64_t accesses_ = 0;
};

}  // namespace octet::emulation
