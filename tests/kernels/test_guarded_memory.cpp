// The memory of these tests itself: what leaves it, on either side, ends the program and is named.
#include "tests/kernels/cases.h"

namespace octet::test {
namespace {

using Side = GuardedMemory::Side;

// Writes at this distance from the first byte of 100 bytes.
void write_at(std::ptrdiff_t place, Side side, size_t alignment) {
  const NamedCase scope("a kernel that writes");
  const GuardedMemory memory(100, alignment, side, 0);
  const_cast<volatile char*>(memory.data())[place] = 1;
}
void read_at(std::ptrdiff_t place, Side side) {
  const NamedCase scope("a kernel that reads");
  const GuardedMemory memory(100, 1, side, 0);
  static_cast<void>(const_cast<const volatile char*>(memory.data())[place]);
}

TEST(GuardedMemory, IsZeroedAndAligned) {
  for (const Side side : {Side::end, Side::start})
    for (const size_t bytes : {1, 64, 100, 4095, 4096, 4097, 20000})
      for (const size_t alignment : {1, 2, 4, 16, 64}) {
        const GuardedMemory memory(bytes, alignment, side, 7);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % alignment, 0u);
        EXPECT_EQ(std::string(memory.data(), bytes), std::string(bytes, 7));
        memset(memory.data(), 1, bytes);  // all of it may be written
      }
}

#if !defined(__SANITIZE_ADDRESS__)  // which sees the bytes beside the memory first, and says other words
TEST(GuardedMemoryDeathTest, AWriteOneByteBeyondIsFoundOnBothSides) {
  EXPECT_EXIT(write_at(100, Side::end, 1), testing::ExitedWithCode(1), "an access to byte 1 behind the memory of 100");
  EXPECT_EXIT(write_at(100, Side::end, 64), testing::ExitedWithCode(1), "a write at byte 1 behind the memory of 100");
  EXPECT_EXIT(write_at(128, Side::end, 64), testing::ExitedWithCode(1), "an access to byte 29 behind");
  EXPECT_EXIT(write_at(100, Side::start, 1), testing::ExitedWithCode(1), "a write at byte 1 behind the memory of 100");
  EXPECT_EXIT(write_at(-1, Side::start, 1), testing::ExitedWithCode(1), "an access to byte 1 before the memory of 100");
  EXPECT_EXIT(write_at(-1, Side::end, 1), testing::ExitedWithCode(1), "a write at byte 1 before the memory of 100");
  write_at(99, Side::end, 1);
}

TEST(GuardedMemoryDeathTest, AReadBeyondIsFoundOnTheGuardedSide) {
  EXPECT_EXIT(read_at(100, Side::end), testing::ExitedWithCode(1), "an access to byte 1 behind");
  EXPECT_EXIT(read_at(-1, Side::start), testing::ExitedWithCode(1), "an access to byte 1 before");
  read_at(99, Side::end);
}

TEST(GuardedMemoryDeathTest, TestCaseAndSeedAreNamed) {
  EXPECT_EXIT(write_at(100, Side::start, 1), testing::ExitedWithCode(1),
              "test: GuardedMemoryDeathTest.TestCaseAndSeedAreNamed\n.*OCTET_TEST_SEED=" + std::to_string(run_seed()));
  EXPECT_EXIT(write_at(100, Side::end, 1), testing::ExitedWithCode(1), "case: a kernel that writes\n");
}
#endif

}  // namespace
}  // namespace octet::test
