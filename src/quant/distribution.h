// Is a gradient Gaussian, Laplace or Student's t? Kolmogorov-Smirnov statistics as in Table 1 of "Towards Unified INT8
// Training for Convolutional Neural Network" (CVPR 2020): what speaks against choosing a clip by assuming a
// distribution.
#pragma once
#include <cstdint>
#include <span>

namespace octet {

// The largest difference between the cumulative distribution of the values and that of the best fit.
struct KolmogorovSmirnov {
  double gaussian = 0, laplace = 0, student = 0;
  double critical = 0;  // what the fits exceed by chance in one case of twenty, for as many independent values
};

// histogram: (histogram_bins) counts of |x|, see shared/encode.h. The fits are those of greatest likelihood with mean
// zero, and the values are taken to be symmetric about it, of which the counts tell nothing.
KolmogorovSmirnov kolmogorov_smirnov(std::span<const int64_t> histogram);

}  // namespace octet
