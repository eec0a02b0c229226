// The loops over the elements of one block of the gradient exchange, for one instruction set. The compiler makes
// vectors of them: every element is computed alone, so any width gives the same bits.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/shared/random.h"

namespace octet::cpu {

struct BlockLoops {
  // 16 random bits for each element of some groups (RandomGroup in shared/random.h), from the global group on.
  void (*random_bits)(const RngKey&, uint64_t first_group, int64_t groups, uint16_t* bits);
  uint32_t (*largest_bits)(const float* x, size_t count);  // see largest_of_bits() in kernels/shared/block_scale.h
  // codes[i] = stochastic rounding of x[i] * inverse
  void (*encode)(const float* x, size_t count, float inverse, const uint16_t* random, int8_t* codes);
  void (*decode)(const int8_t* codes, size_t count, float step, float* x);  // x[i] = codes[i] * step
  void (*add)(const int8_t* codes, size_t count, int32_t* sum);             // sum[i] += codes[i], exactly
  // mean[i] = sum[i] / ranks, a real number in -127..127. The summed gradient is mean[i] * step * ranks.
  void (*divide)(const int32_t* sum, size_t count, float ranks, float* mean);
};

}  // namespace octet::cpu
