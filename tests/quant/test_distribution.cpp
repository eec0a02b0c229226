// Kolmogorov-Smirnov statistics of samples whose distribution is known.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "kernels/shared/encode.h"
#include "src/quant/distribution.h"

namespace octet {
namespace {

constexpr int kValues = 200'000;

KolmogorovSmirnov statistics_of(const std::function<double(std::mt19937_64&)>& draw) {
  std::mt19937_64 random(7);
  std::vector<int64_t> histogram(histogram_bins);
  for (int i = 0; i < kValues; ++i) ++histogram[size_t(histogram_bin(float(draw(random))))];
  return kolmogorov_smirnov(histogram);
}

// At the edges of bins, shares of as many values differ by chance alone: half of what the critical value allows for x
// itself.
constexpr double fits = 0.004;

TEST(KolmogorovSmirnov, KnowsAGaussian) {
  std::normal_distribution<double> normal(0, 3e-4);
  const KolmogorovSmirnov ks = statistics_of([&](auto& random) { return normal(random); });
  EXPECT_LT(ks.gaussian, fits);
  EXPECT_LT(ks.student, fits);  // of many degrees of freedom
  EXPECT_GT(ks.laplace, 0.03);
  EXPECT_NEAR(ks.critical, 1.358 / std::sqrt(kValues), 1e-9);
}

TEST(KolmogorovSmirnov, KnowsALaplacian) {
  std::exponential_distribution<double> exponential(1e5);
  const KolmogorovSmirnov ks = statistics_of([&](auto& random) { return exponential(random); });
  EXPECT_LT(ks.laplace, fits);
  EXPECT_GT(ks.gaussian, 0.03);
  EXPECT_GT(ks.student, fits);
}

TEST(KolmogorovSmirnov, KnowsStudentsT) {
  for (const double freedom : {1.0, 3.0}) {
    std::student_t_distribution<double> student(freedom);
    const KolmogorovSmirnov ks = statistics_of([&](auto& random) { return 1e-3 * student(random); });
    EXPECT_LT(ks.student, fits) << freedom;
    EXPECT_GT(ks.gaussian, 0.05) << freedom;
  }
}

TEST(KolmogorovSmirnov, ReadsZerosAndNothing) {
  std::vector<int64_t> histogram(histogram_bins);
  EXPECT_EQ(kolmogorov_smirnov(histogram).gaussian, 0);
  histogram[0] = 1000;
  EXPECT_EQ(kolmogorov_smirnov(histogram).laplace, 0);
  histogram[histogram_bins / 2] = 1;  // one value far from all others: nothing fits
  const KolmogorovSmirnov ks = kolmogorov_smirnov(histogram);
  EXPECT_GT(ks.gaussian, 0.4);
  for (const size_t others : {1, 100, 600}) {  // mostly zeros: half the difference of two shares is at most 0.5
    std::fill(histogram.begin(), histogram.end(), 0);
    histogram[0] = 1000;
    for (size_t i = 0; i < others; ++i) ++histogram[histogram_bins / 2 + i];
    const double student = kolmogorov_smirnov(histogram).student;
    EXPECT_GE(student, 0);
    EXPECT_LE(student, 0.5) << others;
  }
}

}  // namespace
}  // namespace octet
