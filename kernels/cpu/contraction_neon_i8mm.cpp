// NEON with matrix products (Armv8.6, FEAT_I8MM): smmla multiplies two rows of eight signed bytes by two, and adds four
// sums. One operand holds eight codes of two pixels, the other those of two lanes: so words are joined in pairs.
#include <arm_neon.h>

#define OCTET_TIER neon_i8mm
#define OCTET_LANES 4
#include "kernels/cpu/contraction.h"
#include "kernels/cpu/vector.h"
// (the text of all tiers)
#include "kernels/cpu/contraction.inc"
#include "kernels/cpu/contraction_neon.inc"

namespace octet::cpu::neon_i8mm {
namespace {

struct Codes : SignedBytes<2> {
  static constexpr int max_blocks = 1, tile = 4;

  // M pixels by 16 lanes in M / 2 by 8 registers, each of two pixels by two lanes. Two loads of half a register bring a
  // pair of words of two pixels together, and weights lie as they are multiplied. A function of its own: gcc keeps its
  // sums in registers. The asm keeps gcc from adding a common offset to all addresses: loads that move their address on
  // need no other instruction.
  template <int N, int M>
  __attribute__((noinline)) static void run_pair_tile(const Panel& panel, const int32_t* base, i32xN* sums) {
    static_assert(N == block_vectors && M % 2 == 0);
    constexpr int columns = block_lanes / 2;
    int32x4_t sum[M / 2][columns];
    OCTET_UNROLL for (int c = 0; c < columns; ++c) {
      const int32x2_t start = vld1_s32(panel.start + 2 * c);
      OCTET_UNROLL for (int p = 0; p < M / 2; ++p) sum[p][c] = vcombine_s32(start, start);
    }
    const auto* weights = static_cast<const int8_t*>(panel.weights);
    for (int64_t s = 0; s < panel.segments; ++s) {
      const int8_t* x[M];
      OCTET_UNROLL for (int m = 0; m < M; ++m) x[m] = static_cast<const int8_t*>(panel.x) + base[m] + panel.segment[s];
      for (int pair = panel.words / 2; pair > 0; --pair, weights += 128) {
        int8x16_t pixels[M / 2];
        OCTET_UNROLL for (int p = 0; p < M / 2; ++p) {
          pixels[p] = vcombine_s8(vld1_s8(x[2 * p]), vld1_s8(x[2 * p + 1]));
          x[2 * p] += 8, x[2 * p + 1] += 8;
          asm("" : "+r"(x[2 * p]), "+r"(x[2 * p + 1]));
        }
        OCTET_UNROLL for (int c = 0; c < columns; ++c) {
          const int8x16_t w = vld1q_s8(weights + 16 * c);
          OCTET_UNROLL for (int p = 0; p < M / 2; ++p) sum[p][c] = vmmlaq_s32(sum[p][c], pixels[p], w);
        }
      }
    }
    OCTET_UNROLL for (int p = 0; p < M / 2; ++p) OCTET_UNROLL for (int n = 0; n < N; ++n) {
      const int32x4_t a = sum[p][2 * n], b = sum[p][2 * n + 1];
      store(sums + 2 * p * N + n, vcombine_s32(vget_low_s32(a), vget_low_s32(b)));
      store(sums + (2 * p + 1) * N + n, vcombine_s32(vget_high_s32(a), vget_high_s32(b)));
    }
  }
};

}  // namespace

constinit const ContractionKernels code_kernels = kernels_of<Codes>();

}  // namespace octet::cpu::neon_i8mm
