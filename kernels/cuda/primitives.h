// Instructions that C++ has no words for. tests/cuda_emulation/primitives.h gives each its meaning on the host.
#pragma once
#include <cstdint>

#include "kernels/shared/encode.h"

namespace octet::cuda {

struct alignas(16) Sixteen {
  uint32_t word[4];
};

// Loads memory that no thread writes while the kernel runs, through the read-only cache. Word: of 1 to 16 bytes.
template <class Word>
__device__ __forceinline__ Word read_only(const Word* from) {
  if constexpr (sizeof(Word) == 16) {
    const uint4 four = __ldg(reinterpret_cast<const uint4*>(from));
    return {{four.x, four.y, four.z, four.w}};
  } else if constexpr (sizeof(Word) == 8) {
    return __ldg(reinterpret_cast<const unsigned long long*>(from));
  } else {
    return __ldg(from);
  }
}
__device__ __forceinline__ Sixteen read_sixteen(const void* from) {
  const uint4 four = *static_cast<const uint4*>(from);
  return {{four.x, four.y, four.z, four.w}};
}
// To global memory, in one instruction: the compiler takes an uint4 apart where registers are few.
__device__ __forceinline__ void write_sixteen(void* to, const Sixteen& from) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"l"(to), "r"(from.word[0]), "r"(from.word[1]),
               "r"(from.word[2]), "r"(from.word[3])
               : "memory");
}

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// The bytes of `low` and `high`, numbered 0 to 7, that the four hexadecimal digits of `which` name, the lowest first.
__device__ __forceinline__ uint32_t chosen_bytes(uint32_t low, uint32_t high, unsigned which) {
  return __byte_perm(low, high, which);
}

// The same of one word, where 8 more than a byte's number stands for the byte's sign, eight times.
__device__ __forceinline__ uint32_t chosen_signs(uint32_t word, unsigned which) {
  uint32_t bytes;
  asm("prmt.b32 %0, %1, %1, %2;" : "=r"(bytes) : "r"(word), "r"(which));
  return bytes;
}
// The larger of each 16-bit half, without sign.
__device__ __forceinline__ uint32_t larger_halves(uint32_t a, uint32_t b) { return __vmaxu2(a, b); }
// The bits, and below them whether the result of arithmetic is negative. A NaN is not: GPUs give it no sign.
__device__ __forceinline__ uint32_t with_sign_of(uint32_t bits, float result) {
  return __funnelshift_l(bits_of(result), bits, 1);
}
// count += value > limit, or |value| > limit if `magnitude`, in two instructions.
template <bool magnitude>
__device__ __forceinline__ void count_beyond(unsigned& count, float value, float limit) {
  if constexpr (magnitude)
    asm("{\n\t.reg .pred p;\n\t.reg .f32 m;\n\tabs.ftz.f32 m, %1;\n\t"
        "setp.gt.ftz.f32 p, m, %2;\n\t@p add.u32 %0, %0, 1;\n\t}"
        : "+r"(count)
        : "f"(value), "f"(limit));
  else
    asm("{\n\t.reg .pred p;\n\tsetp.gt.ftz.f32 p, %1, %2;\n\t@p add.u32 %0, %0, 1;\n\t}"
        : "+r"(count)
        : "f"(value), "f"(limit));
}

// a + b and a * b, where subnormal numbers are zero, as operands and as results.
__device__ __forceinline__ float sum_flushed(float a, float b) {
  float sum;
  asm("add.rn.ftz.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
  return sum;
}
__device__ __forceinline__ float product_flushed(float a, float b) {
  float product;
  asm("mul.rn.ftz.f32 %0, %1, %2;" : "=f"(product) : "f"(a), "f"(b));
  return product;
}

// The whole part of 0 <= x < 256 in the lowest byte, which has other bits above it: added to 2^23 and rounded toward
// zero, x has no bits below the point.
__device__ __forceinline__ uint32_t truncated(float x) { return bits_of(__fadd_rz(x, 8388608.0f)); }

#if __CUDA_ARCH__ >= 800
// Both values as bf16, `low` in the lower half. A NaN stays a NaN, perhaps with other bits.
__device__ __forceinline__ uint32_t bf16_pair(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
// Copies 16 bytes from global to shared memory, both aligned. Unless inside, it writes zeros and does not read `from`.
// The bytes have arrived after wait_copies<n>() with at most n groups committed since, and a block barrier.
__device__ __forceinline__ void copy_async(void* to, const void* from, bool inside) {
  const int bytes = inside ? 16 : 0;  // the rest is filled with zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)),
               "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;\n"); }
template <int left>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(left) : "memory");
}
#else  // Turing has no bf16 instructions. It copies through registers, so the block barrier suffices.
__device__ __forceinline__ uint32_t bf16_pair(float low, float high) {
  return to_bf16(low) | static_cast<uint32_t>(to_bf16(high)) << 16;
}
__device__ __forceinline__ void copy_async(void* to, const void* from, bool inside) {
  *static_cast<uint4*>(to) = inside ? *static_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
}
__device__ __forceinline__ void commit_copies() {}
template <int left>
__device__ __forceinline__ void wait_copies() {}
#endif

// sum + the products of four codes each. A: int8_t or uint8_t.
template <class A, class B>
__device__ __forceinline__ int32_t add_four_products(uint32_t a, uint32_t b, int32_t sum) {
  static_assert(B(-1) < B(0));
  if constexpr (A(-1) < A(0))
    asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
  else
    asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
  return sum;
}

// Tells a counter that this block has arrived, as one of `blocks`. One thread calls it, behind a barrier. Returns how
// many have arrived before. If all others have, then what they wrote before they arrived can be read behind another
// barrier and a __threadfence(), though not with read_only(). The counter is 0 before and after all.
__device__ __forceinline__ unsigned arrive(unsigned* counter, unsigned blocks) {
  __threadfence();
  return atomicInc(counter, blocks - 1);
}
// Whether this block is the last of `blocks` that arrive at a counter. All its threads ask. What other blocks wrote
// before they arrived is then there to be read, though not with read_only(). The counter is 0 before and afterwards.
__device__ __forceinline__ bool last_to_arrive(unsigned* counter, unsigned blocks) {
  __threadfence();
  __syncthreads();
  bool last = false;
  if (threadIdx.x == 0) last = arrive(counter, blocks) + 1 == blocks;
  last = __syncthreads_or(last ? 1 : 0) != 0;
  __threadfence();
  return last;
}
// *to += value, by several blocks at once.
__device__ __forceinline__ void add_atomically(int64_t* to, int64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}

// Loads four matrices of 8 rows of 16 bytes. Lane i gives the address of row i % 8 of matrix i / 8 in shared memory,
// and gets bytes 4 (lane % 4) to 4 (lane % 4) + 3 of row lane / 4 of each matrix.
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

// As load_matrices(), but of each matrix a lane gets bytes 2 (lane / 4) and 2 (lane / 4) + 1 of rows 2 (lane % 4) and
// 2 (lane % 4) + 1: the matrix of pairs of bytes, transposed.
__device__ __forceinline__ void load_turned(uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

#if __CUDA_ARCH__ >= 800
#define OCTET_MULTIPLY_ADD(types)                                                       \
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." types                           \
               ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n" \
               : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])             \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
#else  // Turing multiplies 8 x 8 x 16, with operands and sums in the same lanes
#define OCTET_MULTIPLY_ADD(types)                                                                     \
  for (int row = 0; row < 2; ++row)                                                                   \
    for (int half = 0; half < 2; ++half)                                                              \
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32." types ".s32 {%0, %1}, {%2}, {%3}, {%0, %1};\n" \
               : "+r"(sums[2 * row]), "+r"(sums[2 * row + 1])                                         \
               : "r"(a[row + 2 * half]), "r"(half == 0 ? b0 : b1))
#endif
// sums (16 x 8) += a (16 x 32 codes) * b (32 x 8 codes), spread over a warp as PTX's mma.m16n8k32 does.
// A and B: int8_t, or one of them uint8_t. With g = lane / 4 and t = lane % 4 a lane holds
//   a[0]: row g, k 4t to 4t + 3; a[1]: row g + 8; a[2], a[3]: the same rows from k + 16
//   b0: column g, k 4t to 4t + 3; b1: from k + 16
//   sums[0], sums[1]: row g, columns 2t and 2t + 1; sums[2], sums[3]: row g + 8.
template <class A, class B>
__device__ __forceinline__ void multiply_add(int32_t (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  constexpr bool a_signed = A(-1) < A(0), b_signed = B(-1) < B(0);
  static_assert(a_signed || b_signed);
  if constexpr (!a_signed)
    OCTET_MULTIPLY_ADD("u8.s8");
  else if constexpr (!b_signed)
    OCTET_MULTIPLY_ADD("s8.u8");
  else
    OCTET_MULTIPLY_ADD("s8.s8");
}
#undef OCTET_MULTIPLY_ADD

}  // namespace octet::cuda
