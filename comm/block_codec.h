// The loops of the quantized all-reduce over the elements of one block, which share one scale. Bits do not depend on
// the instruction set. Random bits are those of random_bits16() in kernels/shared/random.h, made 256 at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/shared/random.h"

namespace octet {

// value = code * step, codes in -127..127.
struct BlockScale {
  float step = 0, inverse = 0;
};
// absmax: of the block, over all ranks. Not finite: the step is NaN, so that all of the block decodes to NaN, whatever
// the codes. Below 2^-100, where 127 / absmax would overflow, a block counts as zero.
BlockScale block_scale(float absmax);

// The largest |x|; infinity when any x is infinite or NaN (the maximum of a NaN would be lost).
float block_absmax(std::span<const float> x);

class RandomBits {
 public:
  // The 16 bits of elements [first, first + count) under the key. Valid until the next call.
  const uint16_t* of(const RngKey&, uint64_t first, size_t count);

 private:
  std::vector<uint16_t> bits_;
};

// codes[i] = stochastic round of x[i] / step.
void encode_block(std::span<const float> x, BlockScale, const uint16_t* random, int8_t* codes);
// x[i] = codes[i] * step.
void decode_block(const int8_t* codes, float step, std::span<float> x);
// x += residual * factor.
void add_residual(const float* residual, float factor, std::span<float> x);
// residual[i] = (x[i] - codes[i] * step) * unit: what the codes do not say.
void residual_of_block(std::span<const float> x, const int8_t* codes, float step, float unit, float* residual);
// sum[i] += codes[i], exactly.
void add_codes(const int8_t* codes, std::span<int32_t> sum);
// mean[i] = sum[i] / ranks: a real number in -127..127, in units of step * ranks.
void mean_of_codes(std::span<const int32_t> sum, int ranks, float* mean);

}  // namespace octet
