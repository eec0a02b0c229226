// The one definition of rounding, encoding and bf16, used by every backend. Symmetric uniform quantization, equations
// (1)-(3) of "Towards Unified INT8 Training for Convolutional Neural Network" (CVPR 2020):
//   q = round(clip(x, c) / s),  s = c / qmax,  x^ = q s.
// Values that are never negative have codes from 0 on, so the same bits give twice as many steps.
// Everything here is plain float arithmetic without fused multiply-add, so that any vector width gives the same bits.
#pragma once
#include <cstring>

#include "kernels/shared/random.h"

namespace octet {

OCTET_BOTH uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}
OCTET_BOTH float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

// bf16 with rounding to nearest, ties to even. NaN stays NaN.
OCTET_BOTH uint16_t to_bf16(float x) {
  const uint32_t bits = bits_of(x);
  if (x != x) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}
OCTET_BOTH float from_bf16(uint16_t x) { return float_of(static_cast<uint32_t>(x) << 16); }

OCTET_BOTH float scale_of(float clip, int qmax) { return clip / static_cast<float>(qmax); }
// Below 2^-100 the quotient could be infinite, and 0 times infinity is no number. The result is then 0, and so are all
// codes.
OCTET_BOTH float inverse_scale_of(float clip, int qmax) {
  return clip >= 0x1p-100f ? static_cast<float>(qmax) / clip : 0.0f;
}

// NaN becomes the lower bound, so that a code is always in range. The step's finiteness check reports the NaN.
OCTET_BOTH float clamp_code(float x, float lowest, float highest) {
#ifdef __CUDA_ARCH__
  return fminf(fmaxf(x, lowest), highest);  // one instruction each; a NaN gives the other operand
#else
  const float raised = x > lowest ? x : lowest;
  return raised < highest ? raised : highest;
#endif
}

// Rounds to nearest, ties to even: adding 1.5 * 2^23 leaves no bits below the point (|x| < 2^22).
OCTET_BOTH float round_nearest(float x) {
  const float magic = 12582912.0f;
#ifdef __CUDA_ARCH__
  return __fsub_rn(__fadd_rn(x, magic), magic);
#else
  return (x + magic) - magic;
#endif
}

OCTET_BOTH int encode_nearest(float x, float inverse_scale, int lowest, int highest) {
  return static_cast<int>(
      round_nearest(clamp_code(x * inverse_scale, static_cast<float>(lowest), static_cast<float>(highest))));
}

// Rounds stochastically: floor(y + u) with y = x / scale and u = bits16 / 65536. The float with the bits
// 0x43000000 | bits16 is exactly 128 + u. y + 128 + u is positive, so truncation is floor. If y is an integer, the code
// is y.
OCTET_BOTH int8_t encode_stochastic(float x, float inverse_scale, int qmax, uint32_t bits16) {
  const float y = clamp_code(x * inverse_scale, static_cast<float>(-qmax), static_cast<float>(qmax));
  return static_cast<int8_t>(static_cast<int>(y + float_of(0x43000000u | bits16)) - 128);
}

// The histogram in which clips are searched: 64 bins for each power of two from 2^-44 to 2^4. A bin follows from the
// bits of a float, so the edges are fixed and the same on every rank. Smaller magnitudes and zero fall into bin 0,
// larger ones into the last bin.
inline constexpr int histogram_bins = 48 * 64;
OCTET_BOTH int histogram_bin(float x) {
  const int bin = static_cast<int>((bits_of(x) & 0x7FFFFFFFu) >> 17) - ((127 - 44) << 6);
  return bin < 0 ? 0 : (bin >= histogram_bins ? histogram_bins - 1 : bin);
}
inline constexpr int64_t histogram_block = 2048;  // elements, in their order
// True for about one of every `sample` blocks. These blocks are scattered, so that different rows of each image are
// counted.
OCTET_BOTH bool counted(int64_t element, int sample) {
  return (static_cast<uint32_t>(element / histogram_block) * 0x9E3779B1u >> 16) % static_cast<uint32_t>(sample) == 0;
}
// The lower edge of a bin. The middle between the two edges of a bin represents its values.
OCTET_BOTH float histogram_edge(int bin) { return float_of(static_cast<uint32_t>(bin + ((127 - 44) << 6)) << 17); }

}  // namespace octet
