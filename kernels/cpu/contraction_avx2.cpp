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

template <class Code>
OCTET_INLINE __m128i widened(__m128i codes) {
  return Code(-1) < 0 ? _mm_cvtepi8_epi16(codes) : _mm_cvtepu8_epi16(codes);
}

// 8 pixels x 8 channels of codes to 8 channels x 8 pixels of s16.
template <class Code>
OCTET_INLINE void transpose_8x8(const int8_t* src, int64_t pixel_step, int16_t* dst, int64_t channel_step) {
  const auto row = [&](int p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(src + p * pixel_step)); };
  const __m128i a = _mm_unpacklo_epi8(row(0), row(1)), b = _mm_unpacklo_epi8(row(2), row(3));
  const __m128i c = _mm_unpacklo_epi8(row(4), row(5)), d = _mm_unpacklo_epi8(row(6), row(7));
  const __m128i quads[4] = {_mm_unpacklo_epi16(a, b),
                            _mm_unpacklo_epi16(c, d),  // channels 0 .. 3 of pixels 0 .. 3, 4 .. 7
                            _mm_unpackhi_epi16(a, b), _mm_unpackhi_epi16(c, d)};
  for (int half = 0; half < 2; ++half) {
    const __m128i first = quads[2 * half], second = quads[2 * half + 1];
    const __m128i pairs[2] = {_mm_unpacklo_epi32(first, second), _mm_unpackhi_epi32(first, second)};
    for (int i = 0; i < 2; ++i, dst += 2 * channel_step) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), widened<Code>(pairs[i]));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + channel_step), widened<Code>(_mm_srli_si128(pairs[i], 8)));
    }
  }
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

  template <class Code>
  static void transpose(const void* source, int64_t pixel_step, int64_t pixels, int64_t channels, void* packed,
                        int64_t channel_step) {
    const auto* src = static_cast<const int8_t*>(source);
    auto* dst = static_cast<int16_t*>(packed);
    const int64_t whole_pixels = pixels / 8 * 8, whole_channels = channels / 8 * 8;
    for (int64_t p = 0; p < whole_pixels; p += 8)
      for (int64_t c = 0; c < whole_channels; c += 8)
        transpose_8x8<Code>(src + p * pixel_step + c, pixel_step, dst + c * channel_step + p, channel_step);
    avx2::transpose<Pairs, Code>(src + whole_pixels * pixel_step, pixel_step, pixels - whole_pixels, whole_channels,
                                 dst + whole_pixels, channel_step);
    avx2::transpose<Pairs, Code>(src + whole_channels, pixel_step, pixels, channels - whole_channels,
                                 dst + whole_channels * channel_step, channel_step);
  }
  template <class Code>
  static constexpr Packing packing = {0, pack<Pairs, Code>, transpose<Code>, start_at_zero};
  static void interleave(const void* source, int64_t pixel_step, int64_t pixels, int lanes_, void* packed,
                         int64_t word_step) {
    const auto* src = static_cast<const int8_t*>(source);
    auto* dst = static_cast<int16_t*>(packed);
    int64_t p = 0;
    for (; lanes_ == block_lanes && p + 2 <= pixels; p += 2, src += 2 * pixel_step, dst += 2 * word_step) {
      const __m128i a = load<__m128i>(src), b = load<__m128i>(src + pixel_step);
      store(dst, _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(a, b)));
      store(dst + block_lanes, _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(a, b)));
    }
    Pairs::interleave(src, pixel_step, pixels - p, lanes_, dst, word_step);
  }
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
  // (gcc would add up the products of several words first, with sums in memory)
  static Vector multiply_add(Vector sum, Vector x, Vector w) {
    asm("vaddps %1, %0, %0" : "+x"(sum) : "x"(_mm256_mul_ps(x, w)));
    return sum;
  }
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
  static Vector load_sums(const int32_t* from) { return load_vector(from); }
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
constinit const ContractionKernels digit_kernels = kernels_of<DigitsOf<Codes, 2, 12, 2>>();

}  // namespace octet::cpu::avx2
