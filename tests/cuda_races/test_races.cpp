// Races of CUDA kernels: what the detector finds and what it leaves alone. The program runs tests/cuda under it as
// well, and fails where it finds a race in one of octet's kernels.
#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "kernels/cuda/runtime.h"
#include "tests/cuda_emulation/device.h"
#include "tests/cuda_emulation/races.h"

namespace octet::cuda {

constexpr unsigned threads = 64;
// The shared memory of the kernels below; not of this file alone, or the compiler would drop what nobody reads.
namespace planted {
int values[threads], other[threads];
int8_t codes[threads];
alignas(16) char to[threads * 16], from[threads * 16];
}  // namespace planted

namespace {

using namespace planted;

// Of a kernel of `blocks` blocks.
std::vector<std::string> races_of(unsigned blocks, const std::function<void()>& kernel) {
  const emulation::RaceDetector detector;
  emulation::launch("planted", dim3(blocks), dim3(threads), false, kernel);
  return detector.races();
}

TEST(Races, OfThreadsThatNoBarrierOrders) {
  const auto neighbour = [] { return (threadIdx.x + 1) % threads; };
  const auto read_what_another_wrote = [&](bool barrier) {
    return races_of(2, [&, barrier] {
      values[threadIdx.x] = 1;
      if (barrier) __syncthreads();
      other[threadIdx.x] = values[neighbour()];
    });
  };
  EXPECT_TRUE(read_what_another_wrote(true).empty());  // and each block has shared memory of its own
  const std::vector<std::string> found = read_what_another_wrote(false);
  ASSERT_FALSE(found.empty());
  for (const char* word : {"kernel planted", "shared memory", "thread", "no barrier"})
    EXPECT_NE(found[0].find(word), std::string::npos) << found[0];
  EXPECT_FALSE(races_of(1, [&] {
                 other[threadIdx.x] = values[neighbour()];
                 values[threadIdx.x] = 2;
               }).empty());
  EXPECT_FALSE(races_of(1, [&] { values[0] = 3; }).empty());
  EXPECT_TRUE(races_of(1, [&] { other[threadIdx.x] = values[0]; }).empty());
}

TEST(Races, AtomicOperationsOnlyWithOthers) {
  const auto counted = [&](bool barrier) {
    return races_of(1, [&, barrier] {
      atomicAdd(&values[0], 1);
      if (barrier) __syncthreads();
      if (threadIdx.x == 40) other[0] = values[0];
    });
  };
  EXPECT_TRUE(counted(true).empty());
  EXPECT_FALSE(counted(false).empty());
}

TEST(Races, NeighbouringBytesDoNot) {
  EXPECT_TRUE(races_of(1, [&] { codes[threadIdx.x] = 1; }).empty());
}

TEST(Races, AWarpOrdersItsOwnLanes) {
  const auto exchanged = [&](unsigned distance) {
    return races_of(1, [&, distance] {
      values[threadIdx.x] = 1;
      __shfl_xor_sync(~0u, 1, 1);
      values[threadIdx.x ^ distance] = 2;
    });
  };
  EXPECT_TRUE(exchanged(5).empty());
  EXPECT_FALSE(exchanged(32).empty());  // the other warp's
}

TEST(Races, BlocksAreNeverOrdered) {
  const emulation::RaceDetector detector;  // knows memory from its allocation on
  int* const memory = static_cast<int*>(allocate_device(3 * sizeof(int)));
  const auto launch = [&](const std::function<void()>& kernel) {
    emulation::launch("planted", dim3(2), dim3(threads), false, kernel);
    return detector.races().size();
  };
  EXPECT_EQ(launch([=] {
              if (threadIdx.x == 0) memory[blockIdx.x] = 1;
            }),
            0u);
  EXPECT_EQ(launch([=] { atomicAdd(&memory[2], memory[0]); }), 0u);  // launches come one after another
  EXPECT_GT(launch([=] {
              __syncthreads();
              if (threadIdx.x == 0) memory[0] = memory[1];
            }),
            0u);
  EXPECT_NE(detector.races()[0].find("device memory"), std::string::npos);
  release(memory);
}

// The last block to arrive may use what the others wrote before they arrived, but not what they write afterwards.
TEST(Races, TheLastBlockToArriveComesAfterTheOthers) {
  const auto read_what_others_wrote = [](bool arrives, bool late) {
    const emulation::RaceDetector detector;
    int* const memory = static_cast<int*>(allocate_device(4 * sizeof(int)));
    unsigned* const counter = static_cast<unsigned*>(allocate_device(sizeof(unsigned)));
    *counter = 0;
    emulation::launch("planted", dim3(3), dim3(threads), false, [=] {
      if (!late && threadIdx.x == 0) memory[blockIdx.x] = 1;
      const bool last = arrives ? last_to_arrive(counter, 3) : blockIdx.x == 2;
      if (late && threadIdx.x == 0) memory[blockIdx.x] = 1;
      if (last && threadIdx.x == 5) memory[3] = memory[0] + memory[1] + memory[2];
    });
    EXPECT_EQ(*counter, 0u);
    release(memory), release(counter);
    return detector.races().size();
  };
  EXPECT_EQ(read_what_others_wrote(true, false), 0u);
  EXPECT_GT(read_what_others_wrote(false, false), 0u);
  EXPECT_GT(read_what_others_wrote(true, true), 0u);
}

// A block may be the last one twice: what it knows of another block is then the later.
TEST(Races, TheLastBlockToArriveTwiceKnowsBothParts) {
  const auto read_twice = [](bool arrives) {
    const emulation::RaceDetector detector;
    int* const memory = static_cast<int*>(allocate_device(5 * sizeof(int)));
    unsigned* const counters = static_cast<unsigned*>(allocate_device(2 * sizeof(unsigned)));
    counters[0] = counters[1] = 0;
    emulation::launch("planted", dim3(2), dim3(threads), false, [=] {
      for (int part = 0; part < 2; ++part) {
        if (threadIdx.x == 0) memory[2 * part + blockIdx.x] = 1;
        const bool last = arrives || part == 0 ? last_to_arrive(counters + part, 2) : blockIdx.x == 1;
        if (last && threadIdx.x == 5) memory[4] = memory[2 * part] + memory[2 * part + 1];
        __syncthreads();
      }
    });
    release(memory), release(counters);
    return detector.races().size();
  };
  EXPECT_EQ(read_twice(true), 0u);
  EXPECT_GT(read_twice(false), 0u);
}

// Its own atomic operation does not order a block's read after those of others.
TEST(Races, AReadBehindAtomicOperationsOfOtherBlocks) {
  const auto read_total = [](bool arrives) {
    const emulation::RaceDetector detector;
    int* const memory = static_cast<int*>(allocate_device(2 * sizeof(int)));
    unsigned* const counter = static_cast<unsigned*>(allocate_device(sizeof(unsigned)));
    *counter = 0;
    emulation::launch("planted", dim3(3), dim3(threads), false, [=] {
      if (threadIdx.x == 7) atomicAdd(&memory[0], 1);
      const bool last = arrives ? last_to_arrive(counter, 3) : blockIdx.x != 1;
      if (last && threadIdx.x == 7) memory[1] = memory[0];
    });
    release(memory), release(counter);
    return detector.races().size();
  };
  EXPECT_EQ(read_total(true), 0u);
  EXPECT_GT(read_total(false), 0u);
}

TEST(Races, OfCopiesThatAreNotWaitedFor) {
  const auto copied = [&](bool barrier) {
    return races_of(1, [&, barrier] {
      other[threadIdx.x] = static_cast<unsigned char>(to[(threadIdx.x + 1) % threads * 16]);
      if (barrier) __syncthreads();
      copy_async(to + threadIdx.x * 16, from + threadIdx.x * 16, true);
      commit_copies();
      wait_copies<0>();
    });
  };
  EXPECT_TRUE(copied(true).empty());
  EXPECT_FALSE(copied(false).empty());
}

}  // namespace
}  // namespace octet::cuda

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const octet::emulation::RaceDetector detector;
  int code = RUN_ALL_TESTS();
  for (const std::string& race : detector.races()) {
    std::printf("%s\n", race.c_str());
    code = 1;
  }
  std::printf("%lld accesses of kernels, %zu races\n", static_cast<long long>(detector.accesses()),
              detector.races().size());
  return code;
}
