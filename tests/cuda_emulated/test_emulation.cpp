// The emulator that proves the CUDA kernels, itself: it must run what a GPU runs, and refuse what a GPU would hang on.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/in_order.h"
#include "tests/cuda_emulation/device.h"

namespace octet::cuda {
namespace {

TEST(Emulation, BarriersSeparateWritesFromReads) {
  std::vector<int> sums(6);
  emulation::launch("sum", dim3(3, 2), dim3(96), false, [&] {
    __shared__ int values[96];
    values[threadIdx.x] = static_cast<int>(threadIdx.x + 100 * blockIdx.x + 1000 * blockIdx.y);
    __syncthreads();
    int sum = 0;
    for (int value : values) sum += value;
    __syncthreads();
    values[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) sums[blockIdx.x + 3 * blockIdx.y] = values[95];
  });
  for (int i = 0; i < 6; ++i) EXPECT_EQ(sums[size_t(i)], 95 * 96 / 2 + 96 * (100 * (i % 3) + 1000 * (i / 3)));
}

TEST(Emulation, ShufflesStayInTheirWarp) {
  std::vector<int> got(64);
  emulation::launch("shuffle", dim3(1), dim3(64), false, [&] {
    const int thread = static_cast<int>(threadIdx.x);
    int sum = thread;
    for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(~0u, sum, mask);
    got[size_t(thread)] = sum;
  });
  for (int i = 0; i < 64; ++i) EXPECT_EQ(got[size_t(i)], i < 32 ? 31 * 32 / 2 : 31 * 32 / 2 + 32 * 32);
}

// The fragments as PTX lays them out, against plain loops.
template <class A, class B>
void expect_product() {
  A a[16][32];
  B b[8][32];
  for (int m = 0; m < 16; ++m)
    for (int k = 0; k < 32; ++k) a[m][k] = static_cast<A>((m * 37 + k * 11) % 255 - 127);
  for (int n = 0; n < 8; ++n)
    for (int k = 0; k < 32; ++k) b[n][k] = static_cast<B>((n * 53 + k * 29) % 255 - 127);
  int got[16][8];
  emulation::launch("product", dim3(1), dim3(32), false, [&] {
    const int group = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4;
    uint32_t rows[4], columns[2];
    for (int i = 0; i < 4; ++i) std::memcpy(&rows[i], &a[group + i % 2 * 8][4 * t + i / 2 * 16], 4);
    for (int i = 0; i < 2; ++i) std::memcpy(&columns[i], &b[group][4 * t + i * 16], 4);
    int32_t sums[4] = {1, 2, 3, 4};
    multiply_add<A, B>(sums, rows, columns[0], columns[1]);
    for (int i = 0; i < 4; ++i) got[group + i / 2 * 8][2 * t + i % 2] = sums[i] - i - 1;
  });
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 8; ++n) {
      int want = 0;
      for (int k = 0; k < 32; ++k) want += a[m][k] * b[n][k];
      EXPECT_EQ(got[m][n], want) << m << ", " << n;
    }
}
TEST(Emulation, MultipliesAsTheTensorCoreDoes) {
  expect_product<int8_t, int8_t>();
  expect_product<uint8_t, int8_t>();
  expect_product<int8_t, uint8_t>();
}

TEST(Emulation, MatricesArriveByAddressedRows) {
  alignas(16) uint8_t rows[32][16];
  for (int row = 0; row < 32; ++row)
    for (int i = 0; i < 16; ++i) rows[row][i] = static_cast<uint8_t>(row * 7 + i);
  emulation::launch("matrices", dim3(1), dim3(32), false, [&] {
    const unsigned lane = threadIdx.x;
    uint32_t got[4];
    load_matrices(got, rows[31 - lane]);
    for (unsigned matrix = 0; matrix < 4; ++matrix)
      EXPECT_EQ(std::memcmp(&got[matrix], &rows[31 - (matrix * 8 + lane / 4)][lane % 4 * 4], 4), 0);
  });
}

TEST(Emulation, CopiesArriveWhenTheyAreWaitedFor) {
  alignas(16) char from[32], to[32] = {};
  std::memset(from, 7, sizeof from);
  emulation::launch("copy", dim3(1), dim3(1), false, [&] {
    copy_async(to, from, true);
    commit_copies();
    copy_async(to + 16, from, true);
    commit_copies();
    EXPECT_EQ(to[0], 0);
    wait_copies<1>();
    EXPECT_EQ(to[0], 7);
    EXPECT_EQ(to[16], 0);
    wait_copies<0>();
    EXPECT_EQ(to[31], 7);
    copy_async(to, from, false);
    commit_copies();
    wait_copies<0>();
    EXPECT_EQ(to[0], 0);
  });
}

TEST(Emulation, ThreadsAndBlocksRunInEitherOrder) {
  std::vector<std::vector<unsigned>> blocks;  // their threads, in the order in which they ran
  for (int launch = 0; launch < 2; ++launch)
    emulation::launch("order", dim3(2), dim3(64), false, [&] {
      if (blocks.empty() || blocks.back().size() == 64) blocks.emplace_back();
      blocks.back().push_back(threadIdx.x + 64 * blockIdx.x);
    });
  std::set<std::vector<unsigned>> ran(blocks.begin(), blocks.end());
  EXPECT_EQ(ran.size(), 4u);  // each of the two blocks forwards and backwards
  EXPECT_NE(blocks[0][0] / 64, blocks[2][0] / 64);
  for (const std::vector<unsigned>& block : ran) {
    const bool forwards = std::ranges::is_sorted(block);
    EXPECT_TRUE(forwards || std::ranges::is_sorted(block, std::greater<>()));
    EXPECT_EQ(block.front() % 64, forwards ? 0u : 63u);
  }
}

// Fewer rows than one batch, whole batches, and the beginning of a third.
TEST(InOrder, EveryColumnSeesEveryRowInItsPlace) {
  for (const int64_t rows : {1, 63, 64, 128, 150}) {
    std::vector<int64_t> seen[order_columns];
    emulation::launch("in_order", dim3(1), dim3(order_threads), false, [&] {
      const int64_t column = threadIdx.x % order_columns;
      in_order<int64_t, 64>(
          rows, [&](int64_t row) { return row * 100 + column; },
          [&](int64_t value) { seen[threadIdx.x].push_back(value); });
    });
    for (int64_t column = 0; column < order_columns; ++column) {
      ASSERT_EQ(seen[column].size(), size_t(rows));
      for (int64_t row = 0; row < rows; ++row) EXPECT_EQ(seen[column][size_t(row)], row * 100 + column);
    }
  }
}

TEST(KernelTimes, NameEveryKernelThatWasWaitedFor) {
  const auto backend = make_cuda_backend({.check_every_kernel = true});
  const auto memory = backend->allocate(4 * 64 * sizeof(float));
  float* const values = static_cast<float*>(memory->data());
  const QTensor codes{{values + 64, {1, 1, 1, 64}, DType::s8}, values + 128};
  const Encoding encoding{.dtype = DType::s8};
  for (int i = 0; i < 2; ++i) backend->quantize({{values, {1, 1, 1, 64}}, encoding, {}, codes, {}});
  std::vector<std::string> names;
  for (const KernelTime& kernel : backend->kernel_times()) {
    names.push_back(kernel.name);
    EXPECT_EQ(kernel.calls, 2) << kernel.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"(absmax_kernel<Numbers>)", "finish_range",
                                             "(encode_eights<Numbers, written>)"}));
  EXPECT_TRUE(make_cuda_backend({})->kernel_times().empty());
}

TEST(Recording, StreamsTakePartBetweenTwoEvents) {
  const Stream main = make_stream(nullptr), side = make_stream(nullptr);
  const Event forked = make_event(), joined = make_event();
  char* const memory = static_cast<char*>(allocate_device(2));
  copy_to_device(memory, "ab", 2, main);
  const auto both = [&] {
    record(forked, main);
    wait_for(forked, side);
    fill_zero(memory + 1, 1, side);
    record(joined, side);
    wait_for(joined, main);
    fill_zero(memory, 1, main);
  };
  const auto recorded = [&](const std::function<void()>& work) {
    begin_recording(main);
    try {
      work();
      return end_recording(main);
    } catch (...) {
      abandon_recording(main);
      throw;
    }
  };
  const Recording program = recorded(both);
  EXPECT_EQ(std::string(memory, 2), "ab");
  program.play(main);
  EXPECT_EQ(std::string(memory, 2), std::string(2, '\0'));

  EXPECT_THROW(recorded([&] { fill_zero(memory, 1, side); }), Error);  // a GPU would do it at once
  EXPECT_THROW(recorded([&] {
                 both();
                 fill_zero(memory, 1, side);  // nothing waits for it
               }),
               Error);
  record(forked, main);
  EXPECT_THROW(recorded([&] { wait_for(forked, main); }), Error);  // an event from before
  release(memory);
  for (const Event event : {forked, joined}) destroy_event(event);
  for (const Stream stream : {main, side}) destroy_stream(stream);
}

TEST(EmulationDeathTest, RefusesWhatWouldFailHangOrRace) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto some_lanes = [] {
    emulation::launch("lonely", dim3(1), dim3(32), false, [] {
      if (threadIdx.x < 16) __shfl_xor_sync(~0u, 1, 1);
    });
  };
  EXPECT_DEATH(some_lanes(), "lonely.*not every lane");
  const auto unfinished = [] {
    emulation::launch("hasty", dim3(1), dim3(1), false, [] {
      alignas(16) static char to[16], from[16];
      copy_async(to, from, true);
      commit_copies();
    });
  };
  EXPECT_DEATH(unfinished(), "hasty.*asynchronous copies");
  const auto tall = [] { emulation::launch("tall", dim3(1, 65536), dim3(1), false, [] {}); };
  EXPECT_DEATH(tall(), "tall.*the grid's extent");
}

TEST(EmulationDeathTest, RefusesMisalignedAddresses) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  alignas(16) static char to[32], from[32];
  const auto one_thread = [](const std::function<void()>& body) {
    emulation::launch("askew", dim3(1), dim3(1), false, body);
  };
  EXPECT_DEATH(one_thread([] { copy_async(to, from + 8, true); }), "askew.*misaligned");
  EXPECT_DEATH(one_thread([] { copy_async(to + 4, from, true); }), "askew.*misaligned");
  EXPECT_DEATH(one_thread([] { read_only(reinterpret_cast<const uint32_t*>(from + 2)); }), "askew.*misaligned");
  const auto rows = [] {
    emulation::launch("askew", dim3(1), dim3(32), false, [] {
      uint32_t got[4];
      load_matrices(got, from + 1);
    });
  };
  EXPECT_DEATH(rows(), "askew.*misaligned");
}

}  // namespace
}  // namespace octet::cuda
