#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/block_codec.h"
#include "kernels/cpu/block_loops.h"
#include "kernels/cpu/isa.h"
#include "kernels/shared/block_scale.h"

namespace octet::test {
namespace {

// A codec of two ranks for one block of the values, from the element `first` on.
struct OneBlock {
  std::vector<float> values;
  std::unique_ptr<BlockCodec> codec;
  OneBlock(size_t first, size_t count) : values(first + count) {
    const BlockPart part{.offset = first, .count = count};
    codec = make_host_codec({.values = values, .buckets = {{{part}, {part}, count}}, .exact = {}, .ranks = 2});
  }
  float absmax() const {
    codec->measure(0);
    return codec->buffers(0).absmax[0];
  }
};

TEST(BlockCodec, CodesAreThoseOfTheSharedDefinition) {
  const RngKey key{.seed = 0x123456789ABCDEFull, .step = 7, .layer_id = 11};
  for (const size_t first : {0, 77, 127, 1000})
    for (const size_t count : {1, 16, 127, 128, 129, 1024}) {
      OneBlock block(first, count);
      for (size_t i = 0; i < count; ++i) block.values[first + i] = std::sin(static_cast<float>(i + 1)) * 3;
      const std::vector<float> x = block.values;
      const float absmax = block.absmax();
      EXPECT_LE(absmax, 3);
      const CodecBuffers at = block.codec->buffers(0);
      block.codec->encode(0, key);
      std::vector<int> codes(at.codes.begin(), at.codes.begin() + static_cast<int64_t>(count));
      for (size_t i = 0; i < count; ++i)
        ASSERT_EQ(codes[i],
                  encode_stochastic(x[first + i], inverse_scale_of(absmax, 127), 127, random_bits16(key, first + i)))
            << first << " " << i;
      // The sum of two ranks that send the same codes is twice each: the mean is a code, which is not rounded.
      for (size_t rank = 0; rank < 2; ++rank)
        std::copy_n(at.codes.begin(), count, at.received.begin() + static_cast<int64_t>(rank * count));
      block.codec->reduce(0, key);
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(at.summed[i], codes[i]) << first << " " << i;
      block.codec->decode(0);
      const float step = block_scale(absmax).step;
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(block.values[first + i], static_cast<float>(codes[i]) * (step * 2));
        ASSERT_LT(std::abs(2 * x[first + i] - block.values[first + i]), 2 * step * 1.0001f);
      }
    }
}

TEST(BlockCodec, NoNotANumberIsLostInTheMaximum) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, -nan, infinity, -infinity})
    for (const size_t at : {0, 17, 99}) {
      OneBlock block(0, 100);
      std::fill(block.values.begin(), block.values.end(), -2.0f);
      EXPECT_EQ(block.absmax(), 2);
      block.values[at] = bad;
      EXPECT_EQ(block.absmax(), infinity);
    }
  EXPECT_TRUE(std::isnan(block_scale(infinity).step));
  EXPECT_TRUE(std::isnan(block_scale(nan).step));
  EXPECT_EQ(OneBlock(0, 0).absmax(), 0);
}

TEST(BlockCodec, TinyBlocksCountAsZero) {
  for (float tiny : {0.0f, std::numeric_limits<float>::denorm_min(), 1e-38f}) {
    EXPECT_EQ(block_scale(tiny).step, 0);
    EXPECT_EQ(block_scale(tiny).inverse, 0);
  }
  EXPECT_GT(block_scale(1e-29f).step, 0);
  EXPECT_TRUE(std::isfinite(block_scale(1e-29f).inverse));
}

// Subnormal numbers are kept.
TEST(BlockCodec, EveryInstructionSetComputesTheDefinition) {
  constexpr size_t count = 203;
  std::vector<float> x(count);
  std::vector<uint16_t> random(count);
  std::vector<int8_t> start(count);
  for (size_t i = 0; i < count; ++i) {
    x[i] = std::sin(static_cast<float>(i)) * (i % 3 == 0 ? 1e-40f : 5.0f);
    random[i] = static_cast<uint16_t>(i * 40503u);
    start[i] = static_cast<int8_t>(i * 89u % 255 - 127);
  }
  for (const Isa isa : available_isas()) {
    const cpu::BlockLoops& loops = *cpu::row_of(isa).blocks;
    std::vector<int8_t> codes(count);
    std::vector<float> decoded(count), mean(count);
    std::vector<int32_t> sum(count, 1000);
    loops.encode(x.data(), count, 25.4f, random.data(), codes.data());
    loops.decode(start.data(), count, 0x1p-140f, decoded.data());
    loops.add(start.data(), count, sum.data());
    loops.divide(sum.data(), count, 3, mean.data());
    uint32_t largest = 0;
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(codes[i], encode_stochastic(x[i], 25.4f, 127, random[i])) << name_of(isa) << " " << i;
      ASSERT_EQ(decoded[i], static_cast<float>(start[i]) * 0x1p-140f) << name_of(isa) << " " << i;
      ASSERT_EQ(sum[i], 1000 + start[i]) << name_of(isa) << " " << i;
      ASSERT_EQ(mean[i], static_cast<float>(sum[i]) / 3) << name_of(isa) << " " << i;
      largest = std::max(largest, bits_of(std::fabs(x[i])));
    }
    EXPECT_EQ(loops.largest_bits(x.data(), count), largest) << name_of(isa);
  }
}

}  // namespace
}  // namespace octet::test
