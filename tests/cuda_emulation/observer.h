// Who watches what emulated kernels do with memory.
#pragma once
#include <cstddef>

namespace octet::emulation {

enum class Use { read, write, atomic };

class Observer {
 public:
  virtual ~Observer() = default;
  // By the running thread; code: where in the program.
  virtual void access(const void* address, size_t bytes, Use, const void* code) = 0;
  // The running block passed a barrier, then told a counter that it has arrived. last: after all blocks that will.
  virtual void arrive(const void* counter, bool last) = 0;
  // Device memory that now exists, or does not any more.
  virtual void device_memory(const void* address, size_t bytes, bool present) = 0;
};
extern Observer* observer;  // null: nobody

}  // namespace octet::emulation
