// AVX-512 VNNI: vpdpbusd multiplies unsigned by signed bytes, so x is packed as code + 128 and the sums start from
// -128 * (sum of the weights). It does not saturate: wrapped partial sums come out exact.
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
  using Sum = i32x16;
  using Vector = __m512i;
  static constexpr int max_blocks = 2, tile = 8, word_multiple = 1;
  static Vector load_vector(const void* from) { return _mm512_loadu_si512(from); }
  static void store_vector(void* to, Vector v) { _mm512_storeu_si512(to, v); }
  static Vector broadcast(const void* word) {
    int32_t bits;
    memcpy(&bits, word, 4);
    return _mm512_set1_epi32(bits);
  }
  static Vector multiply_add(Vector sum, Vector x, Vector w) { return _mm512_dpbusd_epi32(sum, x, w); }

  template <int N>
  static void run_tile(const Panel& panel, const int32_t* base, Sum* sums) {
    run_vector_tile<Codes, N>(panel, base, sums);
  }
};

struct Real {
  using X = float;
  using W = float;
  using Source = float;
  using Sum = f32x16;
  using Vector = __m512;
  static constexpr int group = 1, max_blocks = 2, tile = 8, word_multiple = 1;
  static constexpr uint8_t zero = 0;
  static constexpr bool real = true;
  static float encode(float x) { return x; }
  static float weight(float w) { return w; }
  static constexpr auto pack = avx512::pack<Real>;
  static constexpr auto transpose = avx512::transpose<Real>;
  static constexpr auto interleave = avx512::interleave<Real>;
  static constexpr auto pack_weights = avx512::pack_weights<Real>;
  static constexpr auto start = start_at_zero;
  static Vector load_vector(const void* from) { return _mm512_loadu_ps(from); }
  static void store_vector(void* to, Vector v) { _mm512_storeu_ps(to, v); }
  static Vector broadcast(const void* word) {
    float x;
    memcpy(&x, word, 4);
    return _mm512_set1_ps(x);
  }
  static Vector multiply_add(Vector sum, Vector x, Vector w) { return _mm512_add_ps(sum, _mm512_mul_ps(x, w)); }

  template <int N>
  static void run_tile(const Panel& panel, const int32_t* base, Sum* sums) {
    run_vector_tile<Real, N>(panel, base, sums);
  }
};

}  // namespace

constinit const ContractionKernels code_kernels = kernels_of<Codes>();
constinit const ContractionKernels real_kernels = kernels_of<Real>();

}  // namespace octet::cpu::avx512
