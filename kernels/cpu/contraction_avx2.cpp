// AVX2: codes as s16 pairs for vpmaddwd, which is exact (vpmaddubsw would saturate).
#include <immintrin.h>

#define OCTET_TIER avx2
#define OCTET_LANES 8
#include "kernels/cpu/contraction.h"
#include "kernels/cpu/vector.h"
// (the text of all tiers)
#include "kernels/cpu/contraction.inc"

namespace octet::cpu::avx2 {
namespace {

// gcc would add up the products of several words first, and has no registers to keep them in.
OCTET_INLINE __m256i plus(__m256i sum, __m256i products) {
  asm("vpaddd %1, %0, %0" : "+x"(sum) : "x"(products));
  return sum;
}

struct Codes : Pairs {
  using Vector = __m256i;
  static constexpr int max_blocks = 1, tile = 4;
  static Vector load_vector(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
  static void store_vector(void* to, Vector v) { _mm256_storeu_si256(static_cast<__m256i*>(to), v); }
  static Vector broadcast(const void* word) {
    int32_t bits;
    memcpy(&bits, word, 4);
    return _mm256_set1_epi32(bits);
  }
  static Vector multiply_add(Vector sum, Vector x, Vector w) { return plus(sum, _mm256_madd_epi16(x, w)); }
};

struct Real : Singles {
  using Vector = __m256;
  static constexpr int max_blocks = 1, tile = 4;
  static Vector load_vector(const void* from) { return _mm256_loadu_ps(static_cast<const float*>(from)); }
  static void store_vector(void* to, Vector v) { _mm256_storeu_ps(static_cast<float*>(to), v); }
  static Vector broadcast(const void* word) {
    float x;
    memcpy(&x, word, 4);
    return _mm256_set1_ps(x);
  }
  static Vector multiply_add(Vector sum, Vector x, Vector w) { return _mm256_add_ps(sum, _mm256_mul_ps(x, w)); }
};

// Within a tile a vector holds channels 0-3, 8-11 (low) and 4-7, 12-15 (high), the order in which unpacking leaves
// them.
struct Depthwise : Pairs {
  struct Vector {
    __m256i low, high;
  };
  static constexpr int max_blocks = 1, tile = 4;
  static constexpr bool depthwise = true;
  static Vector load_vector(const void* from) {
    const __m256i a = _mm256_loadu_si256(static_cast<const __m256i*>(from));
    const __m256i b = _mm256_loadu_si256(static_cast<const __m256i*>(from) + 1);
    return {_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31)};
  }
  static void store_vector(void* to, Vector v) {
    _mm256_storeu_si256(static_cast<__m256i*>(to), _mm256_permute2x128_si256(v.low, v.high, 0x20));
    _mm256_storeu_si256(static_cast<__m256i*>(to) + 1, _mm256_permute2x128_si256(v.low, v.high, 0x31));
  }
  static Vector interleaved(const void* a, const void* b) {
    const __m256i x = _mm256_loadu_si256(static_cast<const __m256i*>(a)),
                  y = _mm256_loadu_si256(static_cast<const __m256i*>(b));
    return {_mm256_unpacklo_epi16(x, y), _mm256_unpackhi_epi16(x, y)};
  }
  static Vector multiply_add(Vector sum, Vector x, Vector w) {
    return {_mm256_add_epi32(sum.low, _mm256_madd_epi16(x.low, w.low)),
            _mm256_add_epi32(sum.high, _mm256_madd_epi16(x.high, w.high))};
  }
};

}  // namespace

constinit const ContractionKernels code_kernels = kernels_of<Codes>();
constinit const ContractionKernels depthwise_kernels = kernels_of<Depthwise>();
constinit const ContractionKernels real_kernels = kernels_of<Real>();

}  // namespace octet::cpu::avx2
