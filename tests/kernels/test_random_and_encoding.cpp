// Known answers and properties of the functions that every backend shares.
#include <Random123/philox.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/shared/encode.h"
#include "kernels/shared/math.h"
#include "kernels/shared/streams.h"
#include "tests/kernels/cases.h"

namespace octet {
namespace {
using test::random_number;
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

TEST(Philox, MatchesRandom123) {
  r123::Philox4x32_R<7> oracle;
  for (uint64_t i = 0; i < 10000; ++i) {
    const uint64_t counter = i * 0x9E3779B97F4A7C15u, seed = ~counter * 31;
    const uint32_t step = static_cast<uint32_t>(i * 77), layer_id = static_cast<uint32_t>(counter >> 17);
    const auto expected =
        oracle({{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), step, layer_id}},
               {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}});
    const Random128 actual = philox(counter, step, layer_id, seed);
    for (int word = 0; word < 4; ++word) ASSERT_EQ(actual.word[word], expected[word]) << "counter " << i;
  }
}

// Stored weights depend on which bits an element reads, and on the numbers of the streams.
TEST(Philox, ElementsReadTheSameBitsForEver) {
  const RngKey key{7, 3, 5, 1000};
  for (uint64_t i = 0; i < 2048; ++i) {
    const uint64_t e = 1000 + i;
    const uint64_t word = philox(e / 256 * 16 + e % 32 / 2, 3, 5, 7).word[e / 64 % 4];
    ASSERT_EQ(random_bits16(key, i), (word << 32 | word) >> (8 * (e / 32 % 2) + 16 * (e % 2)) & 0xFFFF) << e;
  }
}

TEST(Streams, NumbersStay) {
  EXPECT_EQ(streams::of_node(0, 0), 0u);
  EXPECT_EQ(streams::of_node(100, 2), 802u);
  EXPECT_EQ(streams::of_rank(0), 3u);
  EXPECT_EQ(streams::of_rank(100), 803u);
  EXPECT_EQ(streams::updates.at(5), 0x40000005u);
  EXPECT_EQ(streams::initial_values.at(5), 0x80000005u);
  EXPECT_EQ(streams::data.first, 0xDA7A0000u);
  EXPECT_EQ(streams::exchange_sum.first, 0xFFFFFFFBu);
}

TEST(Streams, MoreNodesThanTheirIdsAreRefused) {
  EXPECT_EQ(streams::of_node(int(streams::most_nodes) - 1, streams::roles - 1), streams::nodes_and_ranks.last);
  streams::require_room(streams::most_nodes, streams::most_nodes, "nodes");
  EXPECT_THROW(streams::require_room(streams::most_nodes + 1, streams::most_nodes, "nodes"), Error);
}

TEST(Philox, EveryByteIsTheUpperOneOfOneElement) {
  const RngKey key{7, 3, 5, 0};
  std::vector<int> uses[2] = {std::vector<int>(1 << 16),
                              std::vector<int>(1 << 16)};  // by place: as the lower, the upper
  std::vector<uint32_t> words;
  for (uint64_t counter = 0; counter < 64; ++counter)
    for (const uint32_t word : philox(counter, key.step, key.layer_id, key.seed).word) words.push_back(word);
  for (uint64_t e = 0; e < 1024; ++e) {
    int found = 0;
    for (size_t place = 0; place < 4 * words.size(); ++place) {
      const uint64_t word = words[place / 4];
      if (((word << 32 | word) >> (8 * (place % 4)) & 0xFFFFu) != random_bits16(key, e)) continue;
      ++found;
      ++uses[0][place];
      ++uses[1][place / 4 * 4 + (place + 1) % 4];
    }
    ASSERT_GE(found, 1) << "element " << e;
  }
  // Two places may hold the same 16 bits by chance; 1,024 elements of 65,536 values: in one of 64 on average.
  for (int half = 0; half < 2; ++half) {
    int once = 0;
    for (size_t place = 0; place < 1024; ++place) {
      EXPECT_GE(uses[half][place], 1) << "byte " << place;
      once += uses[half][place] == 1;
    }
    EXPECT_GT(once, 960);
  }
  const RngKey shifted{key.seed, key.step, key.layer_id, 1000};
  EXPECT_EQ(random_bits16(shifted, 234), random_bits16(key, 1234)) << "first is an offset";
}

TEST(Philox, BitsOfElementsThatShareAByteAreNearlyIndependent) {
  constexpr int64_t groups = 1 << 16;
  const RngKey key{11, 3, 5, 0};
  for (const uint64_t other : {1, 2, 32, 33, 64, 255}) {
    double product = 0;
    for (uint64_t g = 0; g < groups; ++g) {
      const auto uniform = [&](uint64_t e) { return random_bits16(key, 256 * g + e) / 65536.0 - 0.5; };
      product += uniform(0) * uniform(other);
    }
    // The product of two independent ones has variance 1/144.
    EXPECT_NEAR(12 * product / groups, 0, 1.0 / 256 + 5 / std::sqrt(double(groups))) << other;
  }
}

TEST(Bf16, RoundTripsAndRoundsToNearestEven) {
  for (uint32_t code = 0; code < 65536; ++code) {
    const float x = from_bf16(static_cast<uint16_t>(code));
    if (x == x) {
      ASSERT_EQ(to_bf16(x), code);
    } else {
      ASSERT_TRUE(std::isnan(from_bf16(to_bf16(x))));
    }
  }
  for (uint32_t code = 0x0080; code < 0x7F00; ++code) {  // between two neighbours: the nearer one, or the even one
    const uint32_t low = code << 16;
    ASSERT_EQ(to_bf16(float_of(low | 0x7FFF)), code);
    ASSERT_EQ(to_bf16(float_of(low | 0x8000)), code + code % 2);
    ASSERT_EQ(to_bf16(float_of(low | 0x8001)), code + 1);
    ASSERT_EQ(to_bf16(-float_of(low | 0x8001)), 0x8000 + code + 1);
  }
}

TEST(Encode, NearestAgreesWithTheLibrary) {
  for (const int qmax : {1, 7, 127}) {
    for (int i = 0; i < 20000; ++i) {
      const float x = random_number(1, i) * 3, inverse = inverse_scale_of(2.5f, qmax);
      const float wanted = std::nearbyint(std::fmin(std::fmax(x * inverse, -qmax), qmax));
      ASSERT_EQ(encode_nearest(x, inverse, -qmax, qmax), static_cast<int>(wanted)) << x;
      ASSERT_EQ(encode_nearest(x, inverse, 0, qmax), static_cast<int>(std::fmax(wanted, 0))) << x;
    }
  }
  EXPECT_EQ(encode_nearest(2.5f, 1, -127, 127), 2);
  EXPECT_EQ(encode_nearest(3.5f, 1, -127, 127), 4);
  EXPECT_EQ(encode_nearest(-2.5f, 1, -127, 127), -2);
  EXPECT_EQ(encode_nearest(infinity, 1, -127, 127), 127);
  EXPECT_EQ(encode_nearest(infinity, 1, 0, 255), 255);
  EXPECT_EQ(encode_nearest(-infinity, 1, -7, 7), -7);
  EXPECT_EQ(encode_nearest(nan, 1, -127, 127), -127);
  EXPECT_EQ(encode_nearest(nan, 1, 0, 255), 0);
  EXPECT_EQ(inverse_scale_of(0, 127), 0);
}

TEST(Encode, StochasticIsOneOfTheNeighboursAndKeepsIntegers) {
  for (uint32_t bits = 0; bits < 65536; bits += 7) {
    for (int code = -127; code <= 127; ++code) {
      ASSERT_EQ(encode_stochastic(static_cast<float>(code), 1, 127, bits), code);
    }
    ASSERT_EQ(encode_stochastic(-0.25f, 1, 127, bits), bits < 0x4000 ? -1 : 0);
    ASSERT_EQ(encode_stochastic(99.75f, 1, 127, bits), bits < 0x4000 ? 99 : 100);
    ASSERT_EQ(encode_stochastic(1e9f, 1, 127, bits), 127);
    ASSERT_EQ(encode_stochastic(-1e9f, 1, 7, bits), -7);
    ASSERT_EQ(encode_stochastic(nan, 1, 127, bits), -127);
  }
}

TEST(Encode, StochasticRoundingIsUnbiased) {
  constexpr int64_t count = 1 << 19;
  uint32_t layer_id = 0;
  for (const float x : {0.5f, 0.01f, -0.3f, 12.9f, -126.125f, 126.99f}) {
    const RngKey key{42, 9, ++layer_id, 0};
    int64_t sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += encode_stochastic(x, 1, 127, random_bits16(key, i));
    const double up = x - std::floor(static_cast<double>(x));
    const double deviation = std::sqrt(up * (1 - up) / count);
    EXPECT_NEAR(static_cast<double>(sum) / count, x, 5 * deviation + 1.0 / 65536) << "five sigma and one random bit";
  }
}

// A range so small that its inverse would be infinite.
TEST(Encode, ZeroStaysZeroInTheSmallestRanges) {
  for (float clip : {0.0f, 1e-45f, 1.2e-38f, 3.6e-37f, 1e-30f, 1e-29f}) {
    EXPECT_TRUE(std::isfinite(inverse_scale_of(clip, 127)));
    EXPECT_EQ(encode_nearest(0.0f, inverse_scale_of(clip, 127), -127, 127), 0);
    EXPECT_EQ(encode_stochastic(-0.0f, inverse_scale_of(clip, 127), 127, 0xFFFF), 0);
    EXPECT_EQ(encode_nearest(clip, inverse_scale_of(clip, 127), -127, 127), clip >= 0x1p-100f ? 127 : 0);
  }
}

TEST(Histogram, EdgesDelimitTheBins) {
  EXPECT_EQ(histogram_edge(0), std::ldexp(1.0f, -44));
  EXPECT_EQ(histogram_edge(64), std::ldexp(1.0f, -43));
  EXPECT_EQ(histogram_edge(histogram_bins), 16.0f);
  for (int bin = 0; bin < histogram_bins; ++bin) {
    ASSERT_EQ(histogram_bin(histogram_edge(bin)), bin);
    ASSERT_EQ(histogram_bin(-std::nextafter(histogram_edge(bin + 1), 0.0f)), bin);
  }
  EXPECT_EQ(histogram_bin(0), 0);
  EXPECT_EQ(histogram_bin(1e-30f), 0);
  EXPECT_EQ(histogram_bin(1e30f), histogram_bins - 1);
  EXPECT_EQ(histogram_bin(infinity), histogram_bins - 1);
}

TEST(Math, ExponentialAndLogarithm) {
  for (int i = 0; i < 200000; ++i) {
    const double x = random_number(1, i) * 708.0;
    const long double wanted = std::exp(static_cast<long double>(x));
    ASSERT_LT(std::fabs(static_cast<double>((exponential(x) - wanted) / wanted)), 1e-14) << x;
    const double small = random_number(2, i);
    const long double near_one = std::exp(static_cast<long double>(small));
    ASSERT_LT(std::fabs(static_cast<double>((exponential(small) - near_one) / near_one)), 1e-15) << small;
    for (const double y : {static_cast<double>(near_one), exponential(x), 1 + small * 1e-6}) {
      const long double ln = std::log(static_cast<long double>(y));
      ASSERT_LE(std::fabs(static_cast<double>(natural_log(y) - ln)), 1e-15 * std::fabs(static_cast<double>(ln))) << y;
    }
  }
  EXPECT_EQ(exponential(0), 1);
  EXPECT_EQ(exponential(-1e300), 0);
  EXPECT_EQ(exponential(1e300), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(exponential(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_EQ(natural_log(1), 0);
  EXPECT_EQ(natural_log(0), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(natural_log(-1)));
}

TEST(Isa, NamesRoundTrip) {
  for (const std::string& name : isa_names()) EXPECT_EQ(name_of(isa_from_name(name)), name);
  EXPECT_EQ(std::string(name_of(Isa::scalar)), "scalar");  // the order of the enumeration is that of the table
  EXPECT_EQ(std::string(name_of(Isa::avx512_vnni)), "avx512_vnni");
  EXPECT_EQ(std::string(name_of(Isa::neon_dot)), "neon_dot");
  EXPECT_EQ(std::string(name_of(Isa::neon_i8mm)), "neon_i8mm");
  try {
    isa_from_name("sse9");
    FAIL() << "an unknown name was taken";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("avx512_vnni"), std::string::npos) << error.what();
  }
  EXPECT_NE(name_of(best_isa()), nullptr);
}

}  // namespace
}  // namespace octet
