// The inner loops of detection for one instruction set. The compiler makes vectors of them: every element is computed
// alone, so any width gives the same bits.
#pragma once
#include "kernels/shared/losses.h"
#include "kernels/shared/roi.h"

namespace octet::cpu {

// What a bin of a region reads of a map: some channels of the pixels of these rows and columns.
struct RoiBin {
  const RoiTap *rows, *columns;
  int64_t row_count, column_count;
  int64_t row_step, column_step;  // elements from one row or column of the map to the next
};

struct DetectionLoops {
  // losses[i] and slopes[i] = sigmoid_term() of logits[i] whose answer is no. Index: the value of Focus.
  void (*sigmoid_terms[3])(const float* logits, int64_t count, double weight, double gamma, double* losses,
                           double* slopes);
  // sums[c] = the weighted sum of the bin's channel c, c < count. image: the first of these channels of the map's first
  // pixel. Index: the value of DType.
  void (*average_bin[4])(const RoiBin& bin, const void* image, int64_t count, float* sums);
};

}  // namespace octet::cpu
