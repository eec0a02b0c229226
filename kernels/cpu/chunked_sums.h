// Sums in FP16 (1, 6, 9), in chunks of 64 products (Wang et al., NeurIPS 2018, figure 3): the inner loops of
// conv_chunked.cpp. A chunk's sum is rounded after each product, then added to the total, which is rounded.
#pragma once
#include "kernels/backend.h"

namespace octet::cpu {

struct ChunkedSums {
  static constexpr int height = 4;  // rows of factors that one call takes: a row of values is read once for all

  // Each loop is there twice. [1], of fewer instructions, gives the same bits where products are exact in f32 and no
  // sum can leave FP16.

  // Goes on with sums[h * count + i], chunked sums of earlier products, whole chunks of them, or 0:
  // factors[h * products + k] * rows[k][i] follow, k = 0, 1 ... products - 1, for h < height and i < count.
  void (*of_rows[2])(const float* const* rows, const float* factors, int64_t products, int64_t count, float* sums);
  // sums[i] = the chunked sum of a[k][offset + i] * b[k][offset + i].
  void (*of_pairs[2])(const float* const* a, const float* const* b, int64_t offset, int64_t products, int64_t count,
                      float* sums);
};

}  // namespace octet::cpu
