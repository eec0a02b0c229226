#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "comm/block_codec.h"
#include "kernels/shared/encode.h"

namespace octet::test {
namespace {

TEST(BlockCodec, RandomBitsAreThoseOfTheElement) {
  const RngKey key{.seed = 0x123456789ABCDEFull, .step = 7, .layer_id = 11};
  RandomBits random;
  for (uint64_t first : {uint64_t{0}, uint64_t{127}, uint64_t{1000}, (uint64_t{1} << 36) + 5})
    for (size_t count : {1, 16, 127, 128, 129, 1024}) {
      const uint16_t* bits = random.of(key, first, count);
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(bits[i], random_bits16(key, first + i)) << first << " " << i;
    }
}

TEST(BlockCodec, CodesAreThoseOfTheSharedDefinition) {
  const RngKey key{.seed = 5, .step = 1, .layer_id = 3};
  std::vector<float> x(1000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i)) * 3;
  const float absmax = block_absmax(x.data(), x.size());
  EXPECT_LE(absmax, 3);
  const BlockScale scale = block_scale(absmax);
  RandomBits random;
  std::vector<int8_t> codes(x.size());
  std::vector<float> decoded(x.size());
  encode_block(x.data(), x.size(), scale, random.of(key, 77, x.size()), codes.data());
  decode_block(codes.data(), x.size(), scale.step, decoded.data());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(codes[i], encode_stochastic(x[i], inverse_scale_of(absmax, 127), 127, random_bits16(key, 77 + i)));
    ASSERT_LT(std::abs(x[i] - decoded[i]), scale.step * 1.0001f);
  }
}

TEST(BlockCodec, NoNotANumberIsLostInTheMaximum) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (float bad : {nan, -nan, infinity, -infinity})
    for (size_t at : {0, 17, 99}) {
      std::vector<float> x(100, -2);
      EXPECT_EQ(block_absmax(x.data(), x.size()), 2);
      x[at] = bad;
      EXPECT_EQ(block_absmax(x.data(), x.size()), infinity);
    }
  EXPECT_TRUE(std::isnan(block_scale(infinity).step));
  EXPECT_TRUE(std::isnan(block_scale(nan).step));
  EXPECT_EQ(block_absmax(nullptr, 0), 0);
}

TEST(BlockCodec, TinyBlocksCountAsZero) {
  for (float tiny : {0.0f, std::numeric_limits<float>::denorm_min(), 1e-38f}) {
    EXPECT_EQ(block_scale(tiny).step, 0);
    EXPECT_EQ(block_scale(tiny).inverse, 0);
  }
  EXPECT_GT(block_scale(1e-29f).step, 0);
  EXPECT_TRUE(std::isfinite(block_scale(1e-29f).inverse));
}

}  // namespace
}  // namespace octet::test
