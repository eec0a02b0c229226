// Sixteen lanes, whatever the instruction set: the compiler lowers them to one AVX-512, two AVX2 or four SSE/NEON
// registers. Every tier therefore adds in the same order and gives the same bits. Include only from a tier source (see
// below).
//
// A tier source is one text, `NAME.inc`, compiled several times: NAME_scalar.cpp, NAME_avx2.cpp and NAME_avx512.cpp
// each define OCTET_TIER (scalar, avx2, avx512) and include it; CMake gives each file the flags its name asks for. All
// code of a tier lives in namespace octet::cpu::OCTET_TIER, so that the linker can never mix tiers; it must not call
// inline functions of the standard library, which the linker does merge (memcpy and the like are fine).
#pragma once
#include <cstdint>
#include <cstring>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "kernels/shared/encode.h"

#ifndef OCTET_TIER
#error "define OCTET_TIER before including vector.h"
#endif

namespace octet::cpu::OCTET_TIER {

inline constexpr int lanes = 16;
typedef float f32x16 __attribute__((vector_size(64)));
typedef int32_t i32x16 __attribute__((vector_size(64)));
typedef uint32_t u32x16 __attribute__((vector_size(64)));
typedef uint64_t u64x8 __attribute__((vector_size(64)));
typedef int16_t i16x16 __attribute__((vector_size(32)));
typedef uint16_t u16x16 __attribute__((vector_size(32)));
typedef int8_t i8x16 __attribute__((vector_size(16)));
typedef uint8_t u8x16 __attribute__((vector_size(16)));

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
// The first n < 16 lanes; the rest read as zero and are not written.
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
OCTET_INLINE f32x16 all(float x) { return f32x16{} + x; }

OCTET_INLINE f32x16 max(f32x16 a, f32x16 b) { return a > b ? a : b; }
OCTET_INLINE f32x16 min(f32x16 a, f32x16 b) { return a < b ? a : b; }
OCTET_INLINE i32x16 truncate(f32x16 x) { return __builtin_convertvector(x, i32x16); }
OCTET_INLINE i8x16 narrow(i32x16 x) { return __builtin_convertvector(x, i8x16); }
// Instructions that the compiler does not find in the generic text. multiply_low: products of the 64-bit lanes' low
// halves.
#ifdef __AVX512F__
OCTET_INLINE i32x16 widen(i8x16 x) { return (i32x16)_mm512_maskz_cvtepi8_epi32(0xFFFF, (__m128i)x); }
OCTET_INLINE u32x16 widen(u16x16 x) { return (u32x16)_mm512_maskz_cvtepu16_epi32(0xFFFF, (__m256i)x); }
OCTET_INLINE u16x16 narrow(u32x16 x) { return (u16x16)_mm512_maskz_cvtepi32_epi16(0xFFFF, (__m512i)x); }
OCTET_INLINE u64x8 multiply_low(u64x8 a, u64x8 b) {
  return (u64x8)_mm512_maskz_mul_epu32(0xFF, (__m512i)a, (__m512i)b);
}
#else
OCTET_INLINE i32x16 widen(i8x16 x) { return __builtin_convertvector(x, i32x16); }
OCTET_INLINE u32x16 widen(u16x16 x) { return __builtin_convertvector(x, u32x16); }
OCTET_INLINE u16x16 narrow(u32x16 x) { return __builtin_convertvector(x, u16x16); }
OCTET_INLINE u64x8 multiply_low(u64x8 a, u64x8 b) { return (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu); }
#endif
OCTET_INLINE f32x16 abs(f32x16 x) { return (f32x16)((u32x16)x & 0x7FFFFFFFu); }
OCTET_INLINE f32x16 to_float(i32x16 x) { return __builtin_convertvector(x, f32x16); }
OCTET_INLINE f32x16 to_float(i8x16 x) { return to_float(widen(x)); }

// bf16 of finite numbers and infinities; a NaN may become an infinity or another NaN, never a finite number.
OCTET_INLINE u16x16 to_bf16(f32x16 x) {
  const u32x16 bits = (u32x16)x;
  return narrow((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}
OCTET_INLINE f32x16 from_bf16(u16x16 x) { return (f32x16)(widen(x) << 16); }

// As the scalar functions of the same names in shared/encode.h.
OCTET_INLINE f32x16 clamp_code(f32x16 x, f32x16 qmax) { return min(max(x, -qmax), qmax); }
OCTET_INLINE i8x16 encode_nearest(f32x16 x, f32x16 inverse_scale, f32x16 qmax) {
  const f32x16 y = clamp_code(x * inverse_scale, qmax);
  return narrow(truncate((y + 12582912.0f) - 12582912.0f));
}
OCTET_INLINE i8x16 encode_stochastic(f32x16 x, f32x16 inverse_scale, f32x16 qmax, u16x16 bits) {
  const f32x16 y = clamp_code(x * inverse_scale, qmax);
  const f32x16 u = (f32x16)(widen(bits) | 0x43000000u);
  return narrow(truncate(y + u) - 128);
}

}  // namespace octet::cpu::OCTET_TIER
