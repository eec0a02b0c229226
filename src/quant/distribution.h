// Tests whether a gradient follows a Gaussian, Laplace or Student's t distribution. Computes the Kolmogorov-Smirnov
// statistics of Table 1 of "Towards Unified INT8 Training for Convolutional Neural Network" (CVPR 2020). With them the
// paper argues against a clip that assumes a distribution.
#pragma once
#include <cstdint>
#include <span>

namespace octet {

// The largest difference between the cumulative distributions of the values and of the best fit.
struct KolmogorovSmirnov {
  double gaussian = 0, laplace = 0, student = 0;
  double critical = 0;  // critical value at the 5 % level, for this number of independent values
};

// histogram: (histogram_bins) counts of |x|, see shared/encode.h. Each fit has mean zero and maximum likelihood. The
// counts have no signs, so the values are assumed to be symmetric about zero.
KolmogorovSmirnov kolmogorov_smirnov(std::span<const int64_t> histogram);

}  // namespace octet
