// Memory that grows to the largest size asked for and is then kept: a backend's scratch.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace octet::cpu {

class Scratch {
 public:
  // At least `bytes` bytes, aligned to 64; what they held before is lost when the scratch grows.
  template <class T = char>
  T* get(size_t count) {
    const size_t bytes = (count * sizeof(T) + 63) / 64 * 64;
    if (bytes > bytes_) {
      memory_.reset();
      bytes_ = 0;
      memory_.reset(std::aligned_alloc(64, bytes));
      if (memory_ == nullptr) throw std::bad_alloc();
      bytes_ = bytes;
    }
    return static_cast<T*>(memory_.get());
  }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  size_t bytes_ = 0;
};

}  // namespace octet::cpu
