#include "src/quant/distribution.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "kernels/shared/encode.h"

namespace octet {
namespace {

// The histogram with four bins merged into one, 16 per octave, which is enough for the fits.
struct Sample {
  std::vector<double> value, count;
  double total = 0, mean = 0, square = 0;  // number of values; means of |x| and x^2
  explicit Sample(std::span<const int64_t> histogram) {
    constexpr size_t step = 4;
    for (size_t bin = 0; bin < histogram.size(); bin += step) {
      double n = 0;
      for (size_t i = bin; i < std::min(bin + step, histogram.size()); ++i) n += double(histogram[i]);
      if (n == 0) continue;
      // Bin 0 also holds zeros and values below the first edge.
      value.push_back(bin == 0 ? 0 : double(histogram_edge(int(bin + step / 2))));
      count.push_back(n);
      total += n;
      mean += n * value.back();
      square += n * value.back() * value.back();
    }
    mean /= std::max(total, 1.0);
    square /= std::max(total, 1.0);
  }
};

// The distribution of |x| if x / scale follows Student's t with `freedom` degrees of freedom.
struct Student {
  double freedom = 1, scale = 1;
  double log_density(double x) const {
    return std::log(2 / scale) + std::lgamma((freedom + 1) / 2) - std::lgamma(freedom / 2) -
           0.5 * std::log(freedom * std::numbers::pi) -
           (freedom + 1) / 2 * std::log1p(x * x / (scale * scale * freedom));
  }
  double log_likelihood(const Sample& sample) const {
    double sum = 0;
    for (size_t i = 0; i < sample.value.size(); ++i) sum += sample.count[i] * log_density(sample.value[i]);
    return sum;
  }
};

// The scale of maximum likelihood, by expectation maximization. The weight of a value is (freedom + 1) / (freedom + (x
// / scale)^2).
Student student_of(const Sample& sample, double freedom) {
  Student fit{freedom, sample.mean};
  for (int i = 0; i < 60; ++i) {
    double sum = 0;
    for (size_t j = 0; j < sample.value.size(); ++j) {
      const double x = sample.value[j] / fit.scale;
      sum += sample.count[j] * sample.value[j] * sample.value[j] * (freedom + 1) / (freedom + x * x);
    }
    const double before = fit.scale;
    // If most values are zeros the likelihood grows without bound as the scale shrinks, so the scale has a lower limit.
    fit.scale = std::max(std::sqrt(sum / sample.total), double(histogram_edge(1)));
    if (std::abs(fit.scale - before) < 1e-5 * before) break;
  }
  return fit;
}

Student student_of(const Sample& sample) {
  double low = std::log(0.2), high = std::log(200.0);  // above 200 the distribution is practically Gaussian
  const double section = (std::sqrt(5.0) - 1) / 2;
  const auto likelihood = [&](double log_freedom) {
    return student_of(sample, std::exp(log_freedom)).log_likelihood(sample);
  };
  double left = high - section * (high - low), right = low + section * (high - low);
  double at_left = likelihood(left), at_right = likelihood(right);
  for (int i = 0; i < 14; ++i) {
    if (at_left > at_right) {
      high = right, right = left, at_right = at_left;
      left = high - section * (high - low);
      at_left = likelihood(left);
    } else {
      low = left, left = right, at_left = at_right;
      right = low + section * (high - low);
      at_right = likelihood(right);
    }
  }
  return student_of(sample, std::exp((low + high) / 2));
}

// The largest difference between two cumulative distributions of x. below(edge): the fitted share of |x| below a bin's
// upper edge, called in ascending order. The difference for x is half of that for |x|, by symmetry.
template <class Below>
double largest_difference(std::span<const int64_t> histogram, double total, Below below) {
  double counted = 0, largest = 0;
  for (size_t bin = 0; bin + 1 < histogram.size(); ++bin) {
    counted += double(histogram[bin]);
    largest = std::max(largest, std::abs(counted / total - below(double(histogram_edge(int(bin) + 1)))));
  }
  return largest / 2;
}

}  // namespace

KolmogorovSmirnov kolmogorov_smirnov(std::span<const int64_t> histogram) {
  const Sample sample(histogram);
  if (sample.mean == 0) return {};  // only zeros
  KolmogorovSmirnov result;
  const double deviation = std::sqrt(sample.square);
  result.gaussian = largest_difference(histogram, sample.total,
                                       [&](double edge) { return std::erf(edge / (deviation * std::numbers::sqrt2)); });
  result.laplace =
      largest_difference(histogram, sample.total, [&](double edge) { return -std::expm1(-edge / sample.mean); });

  const Student student = student_of(sample);
  const auto density = [&](double x) { return std::exp(student.log_density(x)); };
  double share = 0, reached = 0;
  result.student = largest_difference(histogram, sample.total, [&](double edge) {  // Simpson's rule from edge to edge
    const double width = edge - reached;
    share += width / 6 * (density(reached) + 4 * density(reached + width / 2) + density(edge));
    reached = edge;
    return std::min(share, 1.0);
  });
  result.critical = 1.358 / std::sqrt(sample.total);
  return result;
}

}  // namespace octet
