// Vectors of `lanes` numbers for any instruction set. Arithmetic, comparison and ?: are the compiler's own, so every
// tier does the same operations on the same elements and gives the same bits. Only tier sources include this.
//
// A tier source is one text, `NAME.inc`, compiled several times: NAME_scalar.cpp, NAME_avx2.cpp and NAME_avx512.cpp
// each define OCTET_TIER (scalar, avx2, avx512) and include it; CMake chooses the flags by the file's name. All code of
// a tier is in namespace octet::cpu::OCTET_TIER, so that the linker cannot mix tiers. A tier must not call inline
// functions of the standard library, which the linker merges; memcpy and the like are safe (tests/merged_symbols.sh).
//
// OCTET_LANES defaults to 16, which the compiler splits where registers are narrower, often badly: then it is what one
// register holds. Results do not depend on it.
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "kernels/shared/encode.h"

#ifndef OCTET_TIER
#error "define OCTET_TIER before including vector.h"
#endif
#ifndef OCTET_LANES
#define OCTET_LANES 16
#endif

namespace octet::cpu::OCTET_TIER {

static constexpr int lanes = OCTET_LANES;
// Those of the tier's passes, which are in the order of a mask's bits.
#if defined(__AVX512F__)
static constexpr int mask_lanes = 16;
#elif defined(__AVX2__)
static constexpr int mask_lanes = 8;
#else
static constexpr int mask_lanes = 4;
#endif
typedef float f32xN __attribute__((vector_size(4 * OCTET_LANES)));
typedef int32_t i32xN __attribute__((vector_size(4 * OCTET_LANES)));
typedef uint32_t u32xN __attribute__((vector_size(4 * OCTET_LANES)));
typedef uint64_t u64xN __attribute__((vector_size(4 * OCTET_LANES)));  // half as many lanes
typedef int64_t i64xN __attribute__((vector_size(4 * OCTET_LANES)));
typedef float f32xH __attribute__((vector_size(2 * OCTET_LANES)));  // half as many lanes
typedef double f64xH __attribute__((vector_size(4 * OCTET_LANES)));
typedef int32_t i32xH __attribute__((vector_size(2 * OCTET_LANES)));
typedef uint8_t u8xN __attribute__((vector_size(OCTET_LANES)));
typedef int8_t s8xN __attribute__((vector_size(OCTET_LANES)));
typedef int16_t i16xN __attribute__((vector_size(2 * OCTET_LANES)));
typedef uint16_t u16xN __attribute__((vector_size(2 * OCTET_LANES)));

#define OCTET_INLINE static inline __attribute__((always_inline))

template <class V>
OCTET_INLINE V load(const void* from) {
  V v;
  memcpy(&v, from, sizeof v);
  return v;
}
template <class V>
OCTET_INLINE void store(void* to, V v) {
  memcpy(to, &v, sizeof v);
}
// The first n < lanes; the rest read as zero and are not written.
template <class V>
OCTET_INLINE V load_part(const void* from, int n) {
  V v{};
  memcpy(&v, from, static_cast<size_t>(n) * (sizeof v / lanes));
  return v;
}
template <class V>
OCTET_INLINE void store_part(void* to, V v, int n) {
  memcpy(to, &v, static_cast<size_t>(n) * (sizeof v / lanes));
}
// Non-temporal stores: whole cache lines go to memory without being read first. Other threads see them after
// end_stores_past_caches().
#if OCTET_LANES == 16 && defined(__AVX512F__)
OCTET_INLINE void store_past_caches(float* to, f32xN v) { _mm512_stream_ps(to, (__m512)v); }
OCTET_INLINE void end_stores_past_caches() { _mm_sfence(); }
#elif OCTET_LANES == 8 && defined(__AVX2__)
OCTET_INLINE void store_past_caches(float* to, f32xN v) { _mm256_stream_ps(to, (__m256)v); }
OCTET_INLINE void end_stores_past_caches() { _mm_sfence(); }
#else
OCTET_INLINE void store_past_caches(float* to, f32xN v) { store(to, v); }
OCTET_INLINE void end_stores_past_caches() {}
#endif
OCTET_INLINE f32xN all(float x) { return f32xN{} + x; }

OCTET_INLINE f32xN max(f32xN a, f32xN b) { return a > b ? a : b; }
OCTET_INLINE f32xN min(f32xN a, f32xN b) { return a < b ? a : b; }
OCTET_INLINE f32xN abs(f32xN x) { return (f32xN)((u32xN)x & 0x7FFFFFFFu); }
OCTET_INLINE f64xH widen(f32xH x) { return __builtin_convertvector(x, f64xH); }
OCTET_INLINE i32xN truncate(f32xN x) { return __builtin_convertvector(x, i32xN); }

// All lanes as doubles, and back.
struct Doubles {
  f64xH low{}, high{};
};
#if OCTET_LANES == 16 && defined(__AVX512F__)
OCTET_INLINE Doubles doubles_of(f32xN x) {
  const __m512d both = (__m512d)x;
  return {(f64xH)_mm512_maskz_cvtps_pd(0xFF, _mm256_castpd_ps(_mm512_maskz_extractf64x4_pd(0xF, both, 0))),
          (f64xH)_mm512_maskz_cvtps_pd(0xFF, _mm256_castpd_ps(_mm512_maskz_extractf64x4_pd(0xF, both, 1)))};
}
OCTET_INLINE f32xN floats_of(const Doubles& x) {
  const __m256 low = _mm512_maskz_cvtpd_ps(0xFF, (__m512d)x.low), high = _mm512_maskz_cvtpd_ps(0xFF, (__m512d)x.high);
  return (f32xN)_mm512_maskz_insertf32x8(0xFFFF, _mm512_zextps256_ps512(low), high, 1);
}
#else
OCTET_INLINE Doubles doubles_of(f32xN x) {
  f32xH halves[2];
  memcpy(halves, &x, sizeof x);
  return {widen(halves[0]), widen(halves[1])};
}
OCTET_INLINE f32xN floats_of(const Doubles& x) {
  const f32xH halves[2] = {__builtin_convertvector(x.low, f32xH), __builtin_convertvector(x.high, f32xH)};
  return load<f32xN>(halves);
}
#endif

// fused: a b + c, rounded once. OCTET_FUSED: the tier has it.
#if OCTET_LANES == 16 && defined(__AVX512F__)
#define OCTET_FUSED
OCTET_INLINE f32xN fused(f32xN a, f32xN b, f32xN c) { return (f32xN)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
#elif OCTET_LANES == 8 && defined(__FMA__)
#define OCTET_FUSED
OCTET_INLINE f32xN fused(f32xN a, f32xN b, f32xN c) { return (f32xN)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
#endif

// Instructions that the compiler does not find in the generic text.
// nearest: the integer next to x, ties to even, for |x| < 2^22. multiply_low: products of the 64-bit lanes' low halves.
// squared_even, squared_odd: the squares of the lanes with even and with odd numbers.
// any_clear: whether a lane has none of the bits. join_bytes: the low bytes of both, those of `even` first.
// between: one bit for each lane, low < x <= high. where: x in the lanes whose bit is set, else 0.
// count_greater: how many lanes of a exceed those of b. low_doubles, high_doubles: half of the lanes, exactly;
// nearest() of both is the way back, for |x| < 2^31. low_bytes: of each lane.
#if OCTET_LANES == 16 && defined(__AVX512F__)
OCTET_INLINE u32xN widen(u16xN x) { return (u32xN)_mm512_maskz_cvtepu16_epi32(0xFFFF, (__m256i)x); }
OCTET_INLINE u16xN narrow(u32xN x) { return (u16xN)_mm512_maskz_cvtepi32_epi16(0xFFFF, (__m512i)x); }
OCTET_INLINE i32xN widen(i16xN x) { return (i32xN)_mm512_maskz_cvtepi16_epi32(0xFFFF, (__m256i)x); }
OCTET_INLINE i32xN nearest(f32xN x) { return (i32xN)_mm512_maskz_cvtps_epi32(0xFFFF, (__m512)x); }
OCTET_INLINE u64xN multiply_low(u64xN a, u64xN b) {
  return (u64xN)_mm512_maskz_mul_epu32(0xFF, (__m512i)a, (__m512i)b);
}
OCTET_INLINE u64xN squared_even(i32xN x) { return (u64xN)_mm512_maskz_mul_epi32(0xFF, (__m512i)x, (__m512i)x); }
OCTET_INLINE u16xN join_bytes(i32xN even, i32xN odd) {  // 0xCA: the first operand chooses between the others
  const __m512i mask = _mm512_set1_epi32(0xFF), high = (__m512i)(odd << 8);
  return narrow((u32xN)_mm512_ternarylogic_epi32(mask, (__m512i)even, high, 0xCA));
}
OCTET_INLINE int count_greater(f32xN a, f32xN b) {
  return __builtin_popcount(_mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ));
}
OCTET_INLINE uint32_t between(f32xN x, f32xN low, f32xN high) {
  const __mmask16 above = _mm512_cmp_ps_mask((__m512)x, (__m512)low, _CMP_GT_OQ);
  return _mm512_mask_cmp_ps_mask(above, (__m512)x, (__m512)high, _CMP_LE_OQ);
}
OCTET_INLINE f32xN where(uint32_t bits, f32xN x) {
  return (f32xN)_mm512_maskz_mov_ps(static_cast<__mmask16>(bits), (__m512)x);
}
OCTET_INLINE bool any_clear(i32xN x, int bits) {
  return _mm512_testn_epi32_mask((__m512i)x, _mm512_set1_epi32(bits)) != 0;
}
OCTET_INLINE f64xH low_doubles(i32xN x) {
  return (f64xH)_mm512_maskz_cvtepi32_pd(0xFF, _mm512_maskz_extracti64x4_epi64(0xF, (__m512i)x, 0));
}
OCTET_INLINE f64xH high_doubles(i32xN x) {
  return (f64xH)_mm512_maskz_cvtepi32_pd(0xFF, _mm512_maskz_extracti64x4_epi64(0xF, (__m512i)x, 1));
}
OCTET_INLINE i32xN nearest(f64xH low, f64xH high) {
  const __m256i first = _mm512_maskz_cvtpd_epi32(0xFF, (__m512d)low);
  const __m256i second = _mm512_maskz_cvtpd_epi32(0xFF, (__m512d)high);
  return (i32xN)_mm512_maskz_inserti64x4(0xFF, _mm512_zextsi256_si512(first), second, 1);
}
OCTET_INLINE u8xN low_bytes(i32xN x) { return (u8xN)_mm512_maskz_cvtepi32_epi8(0xFFFF, (__m512i)x); }
OCTET_INLINE i32xN widen(u8xN x) { return (i32xN)_mm512_maskz_cvtepu8_epi32(0xFFFF, (__m128i)x); }
OCTET_INLINE i32xN widen(s8xN x) { return (i32xN)_mm512_maskz_cvtepi8_epi32(0xFFFF, (__m128i)x); }
#elif OCTET_LANES == 8 && defined(__AVX2__)
OCTET_INLINE u32xN widen(u16xN x) { return (u32xN)_mm256_cvtepu16_epi32((__m128i)x); }
OCTET_INLINE u16xN narrow(u32xN x) {  // x < 65536
  return (u16xN)_mm_packus_epi32(_mm256_castsi256_si128((__m256i)x), _mm256_extracti128_si256((__m256i)x, 1));
}
OCTET_INLINE i32xN widen(i16xN x) { return (i32xN)_mm256_cvtepi16_epi32((__m128i)x); }
OCTET_INLINE i32xN nearest(f32xN x) { return (i32xN)_mm256_cvtps_epi32((__m256)x); }
OCTET_INLINE u64xN multiply_low(u64xN a, u64xN b) { return (u64xN)_mm256_mul_epu32((__m256i)a, (__m256i)b); }
OCTET_INLINE u64xN squared_even(i32xN x) { return (u64xN)_mm256_mul_epi32((__m256i)x, (__m256i)x); }
OCTET_INLINE u16xN join_bytes(i32xN even, i32xN odd) { return narrow((u32xN)((even & 0xFF) | ((odd & 0xFF) << 8))); }
OCTET_INLINE int count_greater(f32xN a, f32xN b) { return __builtin_popcount(_mm256_movemask_ps((__m256)(a > b))); }
OCTET_INLINE uint32_t between(f32xN x, f32xN low, f32xN high) {
  return static_cast<uint32_t>(_mm256_movemask_ps((__m256)((x > low) & (x <= high))));
}
OCTET_INLINE bool any_clear(i32xN x, int bits) { return _mm256_movemask_ps((__m256)((x & bits) == 0)) != 0; }
OCTET_INLINE f64xH low_doubles(i32xN x) { return (f64xH)_mm256_cvtepi32_pd(_mm256_castsi256_si128((__m256i)x)); }
OCTET_INLINE f64xH high_doubles(i32xN x) { return (f64xH)_mm256_cvtepi32_pd(_mm256_extracti128_si256((__m256i)x, 1)); }
OCTET_INLINE i32xN nearest(f64xH low, f64xH high) {
  return (i32xN)_mm256_set_m128i(_mm256_cvtpd_epi32((__m256d)high), _mm256_cvtpd_epi32((__m256d)low));
}
OCTET_INLINE u8xN low_bytes(i32xN x) {
  const __m128i words = (__m128i)narrow((u32xN)(x & 0xFF));
  const __m128i bytes = _mm_packus_epi16(words, words);
  u8xN low;
  memcpy(&low, &bytes, sizeof low);
  return low;
}
OCTET_INLINE i32xN widen(u8xN x) {
  __m128i bytes = _mm_setzero_si128();
  memcpy(&bytes, &x, sizeof x);
  return (i32xN)_mm256_cvtepu8_epi32(bytes);
}
OCTET_INLINE i32xN widen(s8xN x) {
  __m128i bytes = _mm_setzero_si128();
  memcpy(&bytes, &x, sizeof x);
  return (i32xN)_mm256_cvtepi8_epi32(bytes);
}
#elif OCTET_LANES == 4 && defined(__aarch64__)
OCTET_INLINE u32xN widen(u16xN x) { return (u32xN)vmovl_u16((uint16x4_t)x); }
OCTET_INLINE i32xN widen(i16xN x) { return (i32xN)vmovl_s16((int16x4_t)x); }
OCTET_INLINE u16xN narrow(u32xN x) { return (u16xN)vmovn_u32((uint32x4_t)x); }
OCTET_INLINE i32xN nearest(f32xN x) { return (i32xN)vcvtnq_s32_f32((float32x4_t)x); }
OCTET_INLINE u64xN multiply_low(u64xN a, u64xN b) {
  return (u64xN)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
}
OCTET_INLINE u16xN join_bytes(i32xN even, i32xN odd) { return narrow((u32xN)((even & 0xFF) | ((odd & 0xFF) << 8))); }
OCTET_INLINE int count_greater(f32xN a, f32xN b) { return -vaddvq_s32((int32x4_t)(a > b)); }
OCTET_INLINE uint32_t between(f32xN x, f32xN low, f32xN high) {
  return vaddvq_u32((uint32x4_t)((x > low) & (x <= high)) & (uint32x4_t){1, 2, 4, 8});
}
#else
OCTET_INLINE u32xN widen(u16xN x) { return __builtin_convertvector(x, u32xN); }
OCTET_INLINE u16xN narrow(u32xN x) { return __builtin_convertvector(x, u16xN); }
OCTET_INLINE i32xN widen(i16xN x) { return __builtin_convertvector(x, i32xN); }
OCTET_INLINE i32xN nearest(f32xN x) { return truncate((x + 12582912.0f) - 12582912.0f); }
OCTET_INLINE u64xN multiply_low(u64xN a, u64xN b) { return (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu); }
OCTET_INLINE u16xN join_bytes(i32xN even, i32xN odd) { return narrow((u32xN)((even & 0xFF) | ((odd & 0xFF) << 8))); }
OCTET_INLINE int count_greater(f32xN a, f32xN b) {
  const i32xN greater = a > b;
  int count = 0;
  for (int lane = 0; lane < lanes; ++lane) count -= greater[lane];
  return count;
}
OCTET_INLINE uint32_t between(f32xN x, f32xN low, f32xN high) {
  const i32xN inside = (x > low) & (x <= high);
  uint32_t bits = 0;
  for (int lane = 0; lane < lanes; ++lane) bits |= (uint32_t)(inside[lane] & 1) << lane;
  return bits;
}
#endif
#if !(OCTET_LANES == 16 && defined(__AVX512F__))
OCTET_INLINE f32xN where(uint32_t bits, f32xN x) {
  u32xN bit{};
  for (int lane = 0; lane < lanes; ++lane) bit[lane] = 1u << lane;
  return (f32xN)((u32xN)x & (u32xN)(((u32xN{} + bits) & bit) != 0));
}
#endif
#if !(OCTET_LANES == 16 && defined(__AVX512F__)) && !(OCTET_LANES == 8 && defined(__AVX2__))
OCTET_INLINE f64xH low_doubles(i32xN x) {
  i32xH half;
  memcpy(&half, &x, sizeof half);
  return __builtin_convertvector(half, f64xH);
}
OCTET_INLINE f64xH high_doubles(i32xN x) {
  i32xH half;
  memcpy(&half, reinterpret_cast<const char*>(&x) + sizeof half, sizeof half);
  return __builtin_convertvector(half, f64xH);
}
OCTET_INLINE i32xN nearest(f64xH low, f64xH high) {
  const f64xH magic = f64xH{} + 0x1.8p52;  // leaves no bits below the point
  const i32xH halves[2] = {__builtin_convertvector((low + magic) - magic, i32xH),
                           __builtin_convertvector((high + magic) - magic, i32xH)};
  return load<i32xN>(halves);
}
OCTET_INLINE u8xN low_bytes(i32xN x) { return __builtin_convertvector((u32xN)x, u8xN); }
OCTET_INLINE i32xN widen(u8xN x) { return __builtin_convertvector(x, i32xN); }
OCTET_INLINE i32xN widen(s8xN x) { return __builtin_convertvector(x, i32xN); }
#endif
#if !(OCTET_LANES == 16 && defined(__AVX512F__)) && !(OCTET_LANES == 8 && defined(__AVX2__))
OCTET_INLINE u64xN squared_even(i32xN x) {
  const u64xN magnitude = (u64xN)(x < 0 ? -x : x) & 0xFFFFFFFFu;
  return multiply_low(magnitude, magnitude);
}
#endif
OCTET_INLINE u64xN squared_odd(i32xN x) { return squared_even((i32xN)((u64xN)x >> 32)); }
// The even and the odd elements of two vectors, and back.
OCTET_INLINE void deinterleave(f32xN low, f32xN high, f32xN& even, f32xN& odd) {
  i32xN from{};
  for (int lane = 0; lane < lanes; ++lane) from[lane] = 2 * lane;
  even = __builtin_shuffle(low, high, from);
  odd = __builtin_shuffle(low, high, from + 1);
}
OCTET_INLINE void interleave(f32xN even, f32xN odd, f32xN& low, f32xN& high) {
  i32xN from{};
  for (int lane = 0; lane < lanes; ++lane) from[lane] = lane / 2 + lane % 2 * lanes;
  low = __builtin_shuffle(even, odd, from);
  high = __builtin_shuffle(even, odd, from + lanes / 2);
}
OCTET_INLINE void interleave(u64xN even, u64xN odd, u64xN& low, u64xN& high) {
  u64xN from{};
  for (int lane = 0; lane < lanes / 2; ++lane) from[lane] = uint64_t(lane / 2 + lane % 2 * (lanes / 2));
  low = __builtin_shuffle(even, odd, from);
  high = __builtin_shuffle(even, odd, from + lanes / 4);
}
OCTET_INLINE f32xN to_float(i32xN x) { return __builtin_convertvector(x, f32xN); }

// bf16 of finite numbers and infinities. The NaNs that arithmetic makes stay NaN; one whose payload is only in the
// lower half, or has all bits set, may not.
OCTET_INLINE u32xN rounded_to_bf16(f32xN x) {  // in the upper halves; what the lower ones hold means nothing
  const u32xN bits = (u32xN)x;
  return bits + 0x7FFFu + ((bits >> 16) & 1u);
}
OCTET_INLINE u16xN to_bf16(f32xN x) { return narrow(rounded_to_bf16(x) >> 16); }
// Two vectors behind one another.
OCTET_INLINE void store_bf16(uint16_t* to, f32xN low, f32xN high) {
#if OCTET_LANES == 16 && defined(__AVX512BW__)
  alignas(64) static const uint16_t upper[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                                 33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  _mm512_storeu_si512(to, _mm512_permutex2var_epi16((__m512i)rounded_to_bf16(low), _mm512_load_si512(upper),
                                                    (__m512i)rounded_to_bf16(high)));
#else
  store(to, to_bf16(low));
  store(to + lanes, to_bf16(high));
#endif
}
OCTET_INLINE f32xN from_bf16(u16xN x) { return (f32xN)(widen(x) << 16); }

// As the scalar functions of the same names in shared/encode.h, with any bounds of the codes.
OCTET_INLINE f32xN clamp_code(f32xN x, f32xN low, f32xN high) { return min(max(x, low), high); }
OCTET_INLINE i32xN encode_nearest(f32xN x, f32xN inverse_scale, f32xN low, f32xN high) {
  return nearest(clamp_code(x * inverse_scale, low, high));
}
// The code plus 128. bits: 16 random ones in each lane.
OCTET_INLINE i32xN encode_stochastic(f32xN x, f32xN inverse_scale, f32xN low, f32xN high, u32xN bits) {
  return truncate(clamp_code(x * inverse_scale, low, high) + (f32xN)(bits | 0x43000000u));
}

}  // namespace octet::cpu::OCTET_TIER
