// Dropout: its share, its backward, and what its choice depends on.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "kernels/backend.h"

namespace octet {
namespace {

constexpr int64_t kCount = 1 << 16;

TEST(Dropout, DropsItsShareAndTheGradientFollows) {
  const auto backend = make_reference_backend();
  const Shape shape{4, 1, 1, kCount / 4};
  std::vector<float> x(kCount, 1.0f), y(kCount), dx(kCount, 5.0f);
  const RngKey key{3, 7, 11, 0};
  backend->dropout_forward({{{x.data(), shape}}, 0.25f, key, {{y.data(), shape}}});
  int64_t dropped = 0;
  for (float value : y) {
    ASSERT_TRUE(value == 0 || value == 1 / 0.75f);
    dropped += value == 0;
  }
  EXPECT_NEAR(double(dropped) / kCount, 0.25, 5 * std::sqrt(0.25 * 0.75 / kCount));  // five deviations
  backend->dropout_backward({{x.data(), shape}, 0.25f, key, {{dx.data(), shape}, true}});
  for (int64_t i = 0; i < kCount; ++i) EXPECT_EQ(dx[size_t(i)], 5.0f + y[size_t(i)]);
}

TEST(Dropout, CodesKeepTheirGrid) {
  const auto backend = make_reference_backend();
  const Shape shape{1, 1, 1, 256};
  std::vector<int8_t> x(256), y(256);
  for (int i = 0; i < 256; ++i) x[size_t(i)] = int8_t(i % 255 - 127);
  float scale = 0.125f, grown = 0;
  backend->dropout_forward(
      {{{x.data(), shape, DType::s8}, &scale}, 0.5f, {1, 2, 3, 0}, {{y.data(), shape, DType::s8}, &grown}});
  EXPECT_EQ(grown, 0.25f);
  for (int i = 0; i < 256; ++i) EXPECT_TRUE(y[size_t(i)] == 0 || y[size_t(i)] == x[size_t(i)]);
}

// The second rank of two drops what one rank drops in the second half of its batch; another step drops something else.
TEST(Dropout, FollowsTheGlobalElementAndTheStep) {
  const auto backend = make_reference_backend();
  const Shape whole{8, 1, 1, 64}, half{4, 1, 1, 64};
  std::vector<float> x(512, 1.0f), all(512), second(256), later(512);
  backend->dropout_forward({{{x.data(), whole}}, 0.5f, {9, 5, 2, 0}, {{all.data(), whole}}});
  backend->dropout_forward({{{x.data(), half}}, 0.5f, {9, 5, 2, 256}, {{second.data(), half}}});
  backend->dropout_forward({{{x.data(), whole}}, 0.5f, {9, 6, 2, 0}, {{later.data(), whole}}});
  EXPECT_EQ(second, std::vector<float>(all.begin() + 256, all.end()));
  EXPECT_NE(later, all);
}

// Every instruction set, any number of threads, elements that begin and end anywhere.
TEST(Dropout, ProcessorsDropWhatTheReferenceDrops) {
  const auto plain = make_reference_backend();
  const Shape shape{3, 7, 11, 97};
  const auto count = size_t(shape.elements());
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = float(i % 255) - 127;
  std::vector<int8_t> codes(x.begin(), x.end());
  float scale = 0.5f;
  for (Isa isa : available_isas())
    for (int threads : {1, 3})
      for (float rate : {0.0f, 0.3f}) {
        const auto backend = make_cpu_backend({.isa = isa, .threads = threads});
        const RngKey key{3, 7, 11, 1234567, 77};
        const auto forward = [&](Backend& b) {
          std::vector<float> y(count), dx(count, 2.0f);
          std::vector<int8_t> coded(count);
          float grown = 0;
          b.dropout_forward({{{x.data(), shape}}, rate, key, {{y.data(), shape}}});
          b.dropout_forward(
              {{{codes.data(), shape, DType::s8}, &scale}, rate, key, {{coded.data(), shape, DType::s8}, &grown}});
          b.dropout_backward({{x.data(), shape}, rate, key, {{dx.data(), shape}, true}});
          return std::tuple(y, coded, grown, dx);
        };
        EXPECT_EQ(forward(*backend), forward(*plain)) << name_of(isa) << ' ' << threads << ' ' << rate;
      }
}

}  // namespace
}  // namespace octet
