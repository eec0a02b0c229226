// Memory for tests, between pages that nobody may touch. Whoever leaves it on the one side faults at the first byte,
// and bytes of a known pattern on the other side show a write. Both end the program, with a message that names the
// test, the case, the seed and how far from the memory the byte is.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace octet::test {

// Decides on which side memory is guarded, and the random problems. New for each run, unless OCTET_TEST_SEED is set.
uint32_t run_seed();

// While it lives, what is computed has this name in messages. Scopes nest; tests of one program run one at a time.
class Scope {
 public:
  explicit Scope(const std::string& name);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  std::shared_ptr<const std::string> before_;
};
// Also in messages: the running test, asked for when it is needed, and the last emulated kernel, whose name lives on.
void name_tests(std::string (*running)());
void name_kernel(const char* launched);

class GuardedMemory {
 public:
  static constexpr size_t page = 4096;
  enum class Side : uint8_t { end, start };
  // Filled with the byte. At the end it is closed right behind the memory, but for what the alignment leaves between.
  GuardedMemory(size_t bytes, size_t alignment, Side side, uint8_t fill);
  // On a side that the seed draws, as often the one as the other.
  GuardedMemory(size_t bytes, size_t alignment, uint8_t fill) : GuardedMemory(bytes, alignment, next_side(), fill) {}
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  char* data() const { return data_; }
  // All that is open: whole pages.
  char* pages() const { return pages_; }
  size_t page_bytes() const { return page_bytes_; }
  // Whether the address is in the memory, or in what is closed beside it.
  bool owns(const void* address) const;
  // What happened at such an address, as a sentence.
  std::string describe(const void* address) const;

 private:
  static Side next_side();
  void check() const;  // ends the program if a byte beside the memory was written

  char *data_, *pages_;
  size_t bytes_, page_bytes_;
  std::shared_ptr<const std::string> made_in_;
};

}  // namespace octet::test
