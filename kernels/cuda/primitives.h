// The instructions that C++ has no words for, each with its meaning on the host.
#pragma once
#include <cstdint>

#include "kernels/shared/encode.h"

namespace octet::cuda {

// Sixteen bytes from global to shared memory, both aligned; zeros unless inside, and from is not read then. They have
// arrived after wait_copies<n>() with no more than n groups committed since, and a block barrier.
__device__ __forceinline__ void copy_async(void* to, const void* from, bool inside);
__device__ __forceinline__ void commit_copies();
template <int left>
__device__ __forceinline__ void wait_copies();

// Four 8 x 16-byte matrices: lane i gives the address of row i % 8 of matrix i / 8 in shared memory, and gets bytes
// 4 (lane % 4) .. + 3 of row lane / 4 of each matrix.
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], const void* row);

// sums (16 x 8) += a (16 x 32 codes) * b (32 x 8 codes), spread over a warp as PTX's mma.m16n8k32 does: with g = lane /
// 4 and t = lane % 4, a[0] holds row g, k 4t..4t+3; a[1] row g + 8; a[2], a[3] the same rows from k + 16; b[0] column
// g, k 4t..4t+3; b[1] from k + 16; sums rows g (0, 1) and g + 8 (2, 3), columns 2t and 2t + 1. A and B: int8_t, or one
// of them uint8_t.
template <class A, class B>
__device__ __forceinline__ void multiply_add(int32_t (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

// Both as bf16, `low` in the lower half; a NaN stays one, perhaps another.
__device__ __forceinline__ uint32_t bf16_pair(float low, float high);

// A load through the cache of what nobody writes while the kernel runs.
template <class Word>
__device__ __forceinline__ Word read_only(const Word* from);

#ifdef OCTET_EMULATED

template <class Word>
inline Word read_only(const Word* from) {
  emulation::require_aligned(from, sizeof(Word));
  return *from;
}
inline uint32_t bf16_pair(float low, float high) { return to_bf16(low) | static_cast<uint32_t>(to_bf16(high)) << 16; }

inline void copy_async(void* to, const void* from, bool inside) {
  emulation::copy_async({to, inside ? from : nullptr});
}
inline void commit_copies() { emulation::commit_copies(); }
template <int left>
inline void wait_copies() {
  emulation::wait_copies(left);
}

inline void load_matrices(uint32_t (&to)[4], const void* row) {
  emulation::Exchange& exchange = emulation::next_exchange();
  const unsigned lane = emulation::thread->lane;
  emulation::require_aligned(row, 16);
  exchange.addresses[lane] = row;
  emulation::warp_barrier();
  for (unsigned matrix = 0; matrix < 4; ++matrix)
    std::memcpy(&to[matrix], static_cast<const char*>(exchange.addresses[matrix * 8 + lane / 4]) + lane % 4 * 4, 4);
}

template <class A, class B>
inline void multiply_add(int32_t (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulation::Exchange& exchange = emulation::next_exchange();
  const unsigned lane = emulation::thread->lane;
  for (unsigned i = 0; i < 4; ++i) exchange.words[i][lane] = a[i];
  exchange.words[4][lane] = b0;
  exchange.words[5][lane] = b1;
  emulation::warp_barrier();
  // A row's sixteen bytes lie in four neighbouring lanes, so in sixteen neighbouring bytes of the table.
  const auto bytes = [&]<class Code>(Code, unsigned word, unsigned line) {
    return reinterpret_cast<const Code*>(&exchange.words[word][line * 4]);
  };
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned column = lane % 4 * 2 + i % 2;
    const A *a_low = bytes(A{}, i / 2, lane / 4), *a_high = bytes(A{}, 2 + i / 2, lane / 4);
    const B *b_low = bytes(B{}, 4, column), *b_high = bytes(B{}, 5, column);
    int32_t sum = 0;
    for (int k = 0; k < 16; ++k) sum += a_low[k] * b_low[k] + a_high[k] * b_high[k];
    sums[i] += sum;
  }
}

#else

template <class Word>
__device__ __forceinline__ Word read_only(const Word* from) {
  if constexpr (sizeof(Word) == 8)
    return __ldg(reinterpret_cast<const unsigned long long*>(from));
  else
    return __ldg(from);
}

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ uint32_t bf16_pair(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
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
#else  // Turing has no bf16, and copies through registers: the block barrier that follows is all there is to wait for
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

__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
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
#else  // Turing: 8 x 8 x 16, with the same places for everything
#define OCTET_MULTIPLY_ADD(types)                                                                     \
  for (int row = 0; row < 2; ++row)                                                                   \
    for (int half = 0; half < 2; ++half)                                                              \
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32." types ".s32 {%0, %1}, {%2}, {%3}, {%0, %1};\n" \
               : "+r"(sums[2 * row]), "+r"(sums[2 * row + 1])                                         \
               : "r"(a[row + 2 * half]), "r"(half == 0 ? b0 : b1))
#endif
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

#endif

}  // namespace octet::cuda
