// AVX-512 VNNI: vpdpbusd multiplies unsigned by signed bytes. u8 is packed as it is. s8 is packed as code + 128, and
// sums start from -128 * (sum of the weights). The instruction does not saturate, so partial sums may wrap around.
#include <immintrin.h>

#define OCTET_TIER avx512
#include "kernels/cpu/contraction.h"
#include "kernels/cpu/vector.h"
// (the text of all tiers)
#include "kernels/cpu/contraction.inc"
#include "kernels/cpu/contraction_bytes.inc"

namespace octet::cpu::avx512 {
namespace {

struct Codes : Bytes {
  using Vector = __m512i;
  static constexpr int max_blocks = 2, tile = 8;
  static constexpr bool rows = true;
  static Vector load_vector(const void* from) { return _mm512_loadu_si512(from); }
  static void store_vector(void* to, Vector v) { _mm512_storeu_si512(to, v); }
  static Vector broadcast(const void* word) {
    int32_t bits;
    memcpy(&bits, word, 4);
    return _mm512_set1_epi32(bits);
  }
  // (gcc 12 copies the sum around the intrinsic)
  static Vector multiply_add(Vector sum, Vector x, Vector w) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
  }

  // A word of pixel j belongs to the first tap of m = j, the second of m = j - 1 and the third of m = j - 2: it is
  // loaded once for the three. With a load for each product, two loads a cycle would not keep two products a cycle
  // busy.
  template <int N, int M, class Meanwhile>
  OCTET_INLINE void run_row_tile(const Panel& panel, int32_t base, i32xN* sums, Meanwhile meanwhile) {
    constexpr int taps = 3;
    const int64_t step = panel.row_step, tap_weights = step / 4 * N * vector_bytes;
    Vector sum[M][N];
    OCTET_UNROLL for (int n = 0; n < N; ++n) {
      const Vector start = load_vector(panel.start + n * lanes);
      OCTET_UNROLL for (int m = 0; m < M; ++m) sum[m][n] = start;
    }
    const char* weights = static_cast<const char*>(panel.weights);
    for (int64_t s = 0; s < panel.segments; ++s, weights += (taps - 1) * tap_weights) {
      const char* word = static_cast<const char*>(panel.x) + base + panel.segment[s];
      for (const char* const stop = word + step; word < stop; word += 4, weights += N * vector_bytes) {
        Vector w[taps][N];
        OCTET_UNROLL for (int t = 0; t < taps; ++t) {
          OCTET_UNROLL for (int n = 0; n < N; ++n) w[t][n] = load_vector(weights + t * tap_weights + n * vector_bytes);
        }
        const char* pixel = word;
        OCTET_UNROLL for (int j = 0; j < M + taps - 1; ++j, pixel += step) {
          const Vector x = broadcast(pixel);
          OCTET_UNROLL for (int t = 0; t < taps; ++t) {
            const int m = j - t;
            if (m < 0 || m >= M) continue;
            OCTET_UNROLL for (int n = 0; n < N; ++n) sum[m][n] = multiply_add(sum[m][n], x, w[t][n]);
          }
        }
        meanwhile();
      }
    }
    OCTET_UNROLL for (int m = 0; m < M; ++m) OCTET_UNROLL for (int n = 0; n < N; ++n)
        store_vector(sums + m * N + n, sum[m][n]);
  }
};

struct Real : Singles {
  using Vector = __m512;
  static constexpr int max_blocks = 2, tile = 8;
  static Vector load_vector(const void* from) { return _mm512_loadu_ps(from); }
  static void store_vector(void* to, Vector v) { _mm512_storeu_ps(to, v); }
  static Vector broadcast(const void* word) {
    float x;
    memcpy(&x, word, 4);
    return _mm512_set1_ps(x);
  }
  // (gcc would add up the products of several words first, with sums in memory)
  static Vector multiply_add(Vector sum, Vector x, Vector w) {
    asm("vaddps %1, %0, %0" : "+v"(sum) : "v"(_mm512_mul_ps(x, w)));
    return sum;
  }
};

struct Depthwise : Pairs {
  using Vector = __m512i;
  static constexpr int max_blocks = 2, tile = 8;
  static constexpr bool depthwise = true;
  static Vector load_vector(const void* from) { return _mm512_loadu_si512(from); }
  static void store_vector(void* to, Vector v) { _mm512_storeu_si512(to, v); }
  static Vector load_sums(const int32_t* from) { return load_vector(from); }
  // a[0], b[0], a[1], b[1], ...: 16 channels each
  static Vector interleaved(const void* a, const void* b) {
    const __m512i low = _mm512_castsi256_si512(_mm256_loadu_si256(static_cast<const __m256i*>(a)));
    const __m512i high = _mm512_castsi256_si512(_mm256_loadu_si256(static_cast<const __m256i*>(b)));
    alignas(64) static const int16_t order[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                  8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    return _mm512_permutex2var_epi16(low, _mm512_load_si512(order), high);
  }
  static Vector multiply_add(Vector sum, Vector x, Vector w) { return _mm512_dpwssd_epi32(sum, x, w); }
};

}  // namespace

constinit const ContractionKernels code_kernels = kernels_of<Codes>();
constinit const ContractionKernels depthwise_kernels = kernels_of<Depthwise>();
constinit const ContractionKernels real_kernels = kernels_of<Real>();
constinit const ContractionKernels digit_kernels = kernels_of<DigitsOf<Codes, 3, 8, 8>>();

}  // namespace octet::cpu::avx512
