// Those of Arm's NEON intrinsics that the contraction_neon_*.cpp use, in plain C++, so that other processors can run
// their text (Arm Neon Intrinsics Reference, 2023Q2). Vectors are little-endian.
#pragma once
#include <cstdint>
#include <cstring>

using int8x8_t = int8_t __attribute__((vector_size(8)));
using int8x16_t = int8_t __attribute__((vector_size(16)));
using int16x4_t = int16_t __attribute__((vector_size(8)));
using int16x8_t = int16_t __attribute__((vector_size(16)));
using int32x2_t = int32_t __attribute__((vector_size(8)));
using int32x4_t = int32_t __attribute__((vector_size(16)));
using float32x2_t = float __attribute__((vector_size(8)));
using float32x4_t = float __attribute__((vector_size(16)));
struct int16x8x2_t {
  int16x8_t val[2];
};

inline int8x8_t vreinterpret_s8_s32(int32x2_t x) { return (int8x8_t)x; }
inline float32x2_t vreinterpret_f32_s32(int32x2_t x) { return (float32x2_t)x; }
inline int8x16_t vreinterpretq_s8_s32(int32x4_t x) { return (int8x16_t)x; }

inline int8x8_t vld1_s8(const int8_t* from) {
  int8x8_t x;
  memcpy(&x, from, sizeof x);
  return x;
}
inline int8x16_t vld1q_s8(const int8_t* from) {
  int8x16_t x;
  memcpy(&x, from, sizeof x);
  return x;
}
inline int32x2_t vld1_s32(const int32_t* from) { return int32x2_t{from[0], from[1]}; }
inline int8x16_t vcombine_s8(int8x8_t low, int8x8_t high) {
  int8x16_t x;
  memcpy(&x, &low, sizeof low);
  memcpy(reinterpret_cast<char*>(&x) + sizeof low, &high, sizeof high);
  return x;
}
inline int32x4_t vcombine_s32(int32x2_t low, int32x2_t high) { return int32x4_t{low[0], low[1], high[0], high[1]}; }
inline int32x2_t vget_low_s32(int32x4_t x) { return int32x2_t{x[0], x[1]}; }
inline int32x2_t vget_high_s32(int32x4_t x) { return int32x2_t{x[2], x[3]}; }

inline int16x8_t vld1q_s16(const int16_t* from) {
  int16x8_t x;
  memcpy(&x, from, sizeof x);
  return x;
}
inline int16x8x2_t vld2q_s16(const int16_t* from) {
  int16x8x2_t x;
  for (int i = 0; i < 8; ++i) x.val[0][i] = from[2 * i], x.val[1][i] = from[2 * i + 1];
  return x;
}
inline void vst1q_s32(int32_t* to, int32x4_t x) { memcpy(to, &x, sizeof x); }
inline int16x4_t vget_low_s16(int16x8_t x) {
  int16x4_t low;
  memcpy(&low, &x, sizeof low);
  return low;
}

inline float32x4_t vaddq_f32(float32x4_t a, float32x4_t b) { return a + b; }
inline float32x4_t vmulq_lane_f32(float32x4_t a, float32x2_t b, int lane) { return a * b[lane]; }
inline int32x4_t vmlal_s16(int32x4_t sum, int16x4_t a, int16x4_t b) {
  for (int i = 0; i < 4; ++i) sum[i] += a[i] * b[i];
  return sum;
}
inline int32x4_t vmlal_high_s16(int32x4_t sum, int16x8_t a, int16x8_t b) {
  for (int i = 0; i < 4; ++i) sum[i] += a[i + 4] * b[i + 4];
  return sum;
}
// Each 32-bit lane of sum += the four products of its bytes of a and of the lane of b.
inline int32x4_t vdotq_lane_s32(int32x4_t sum, int8x16_t a, int8x8_t b, int lane) {
  for (int i = 0; i < 16; ++i) sum[i / 4] += a[i] * b[4 * lane + i % 4];
  return sum;
}
// sum, two rows of two, += the two rows of eight bytes of a, times those of b, transposed.
inline int32x4_t vmmlaq_s32(int32x4_t sum, int8x16_t a, int8x16_t b) {
  int8x8_t rows[2], columns[2];
  memcpy(rows, &a, sizeof a);
  memcpy(columns, &b, sizeof b);
  for (int i = 0; i < 4; ++i) {
    const int16x8_t products = __builtin_convertvector(rows[i / 2], int16x8_t) *  // at most 2^14
                               __builtin_convertvector(columns[i % 2], int16x8_t);
    int16x4_t halves[2];
    memcpy(halves, &products, sizeof products);
    const int32x4_t four =
        __builtin_convertvector(halves[0], int32x4_t) + __builtin_convertvector(halves[1], int32x4_t);
    sum[i] += four[0] + four[1] + four[2] + four[3];
  }
  return sum;
}
