// NEON with dot products (Armv8.2-DotProd). The word of x stays in the lowest lane of its register, from which sdot
// takes it: a broadcast would cost an instruction.
#include <arm_neon.h>

#define OCTET_TIER neon_dot
#define OCTET_LANES 4
#include "kernels/cpu/contraction.h"
#include "kernels/cpu/vector.h"
// (the text of all tiers)
#include "kernels/cpu/contraction.inc"
#include "kernels/cpu/contraction_neon.inc"

namespace octet::cpu::neon_dot {
namespace {

OCTET_INLINE int32x2_t low_lane(const void* word) {
  int32_t bits;
  memcpy(&bits, word, 4);
  return int32x2_t{bits, 0};
}

struct Codes : SignedBytes<1> {
  using Vector = int32x4_t;
  static constexpr int max_blocks = 1, tile = 4;
  static Vector load_vector(const void* from) { return load<Vector>(from); }
  static void store_vector(void* to, Vector v) { store(to, v); }
  static int8x8_t broadcast(const void* word) { return vreinterpret_s8_s32(low_lane(word)); }
  static Vector multiply_add(Vector sum, int8x8_t x, Vector w) {
    return vdotq_lane_s32(sum, vreinterpretq_s8_s32(w), x, 0);
  }
};

struct Real : Singles {
  using Vector = float32x4_t;
  static constexpr int max_blocks = 1, tile = 4;
  static Vector load_vector(const void* from) { return load<Vector>(from); }
  static void store_vector(void* to, Vector v) { store(to, v); }
  static float32x2_t broadcast(const void* word) { return vreinterpret_f32_s32(low_lane(word)); }
  static Vector multiply_add(Vector sum, float32x2_t x, Vector w) { return vaddq_f32(sum, vmulq_lane_f32(w, x, 0)); }
};

// NEON has no product of s16 pairs: the two elements of a word travel apart.
struct Depthwise : Pairs {
  struct Vector {
    int32x4_t part[4];
  };
  struct Operand {
    int16x8_t first[2], second[2];  // 16 channels each
  };
  static constexpr int max_blocks = 1, tile = 4;
  static constexpr bool depthwise = true;
  static Operand load_vector(const void* from) {
    const auto* at = static_cast<const int16_t*>(from);
    const int16x8x2_t low = vld2q_s16(at), high = vld2q_s16(at + 16);
    return {{low.val[0], high.val[0]}, {low.val[1], high.val[1]}};
  }
  static void store_vector(void* to, Vector v) {
    for (int i = 0; i < 4; ++i) vst1q_s32(static_cast<int32_t*>(to) + 4 * i, v.part[i]);
  }
  static Vector load_sums(const int32_t* from) { return load<Vector>(from); }
  static Operand interleaved(const void* a, const void* b) {
    const auto *first = static_cast<const int16_t*>(a), *second = static_cast<const int16_t*>(b);
    return {{vld1q_s16(first), vld1q_s16(first + 8)}, {vld1q_s16(second), vld1q_s16(second + 8)}};
  }
  static Vector multiply_add(Vector sum, Operand x, Operand w) {
    for (int i = 0; i < 2; ++i) {
      int32x4_t &low = sum.part[2 * i], &high = sum.part[2 * i + 1];
      low = vmlal_s16(low, vget_low_s16(x.first[i]), vget_low_s16(w.first[i]));
      low = vmlal_s16(low, vget_low_s16(x.second[i]), vget_low_s16(w.second[i]));
      high = vmlal_high_s16(high, x.first[i], w.first[i]);
      high = vmlal_high_s16(high, x.second[i], w.second[i]);
    }
    return sum;
  }
};

}  // namespace

constinit const ContractionKernels code_kernels = kernels_of<Codes>();
constinit const ContractionKernels depthwise_kernels = kernels_of<Depthwise>();
constinit const ContractionKernels real_kernels = kernels_of<Real>();
constinit const ContractionKernels digit_kernels = kernels_of<DigitsOf<Codes, 3, 8, 2>>();

}  // namespace octet::cpu::neon_dot
