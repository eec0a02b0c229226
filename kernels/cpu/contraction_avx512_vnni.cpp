// AVX-512 VNNI: vpdpbusd multiplies unsigned by signed bytes, so u8 is packed as it is; s8 as code + 128, and the sums
// start from -128 * (sum of the weights). It does not saturate: wrapped partial sums come out exact.
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
  static Vector multiply_add(Vector sum, Vector x, Vector w) { return _mm512_add_ps(sum, _mm512_mul_ps(x, w)); }
};

struct Depthwise : Pairs {
  using Vector = __m512i;
  static constexpr int max_blocks = 2, tile = 8;
  static constexpr bool depthwise = true;
  static Vector load_vector(const void* from) { return _mm512_loadu_si512(from); }
  static void store_vector(void* to, Vector v) { _mm512_storeu_si512(to, v); }
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

}  // namespace octet::cpu::avx512
