// The scale that the elements of one block of gradients share while they travel between ranks; see
// kernels/block_codec.h.
#pragma once
#include "kernels/shared/encode.h"

namespace octet {

inline constexpr int block_qmax = 127;  // codes in -127..127

// value = code * step.
struct BlockScale {
  float step = 0, inverse = 0;
};
// absmax: the largest magnitude of the block over all ranks. If it is not finite, the step is NaN, so that the whole
// block decodes to NaN, whatever the codes are. If it is below 2^-100, the block counts as zero, since 127 / absmax
// could overflow.
OCTET_BOTH BlockScale block_scale(float absmax) {
  if ((bits_of(absmax) & 0x7FFFFFFFu) >= 0x7F800000u) return {float_of(0x7FC00000u), 0};
  if (absmax < 0x1p-100f) return {};
  return {scale_of(absmax, block_qmax), inverse_scale_of(absmax, block_qmax)};
}

// The result of block_absmax() from the largest bits of |x|. As integers, the bits of non-negative floats have the
// order of their values. Infinity follows them, and then NaN, which becomes infinity.
OCTET_BOTH float largest_of_bits(uint32_t bits) { return float_of(bits < 0x7F800000u ? bits : 0x7F800000u); }

}  // namespace octet
