// The instructions of kernels/cuda/primitives.h, which documents them, on the host.
#pragma once
#include <algorithm>
#include <cmath>

#include "kernels/shared/encode.h"
#include "tests/cuda_emulation/emulation.h"

namespace octet::cuda {

struct alignas(16) Sixteen {
  uint32_t word[4];
};
template <class Word>
inline Word read_only(const Word* from) {
  emulation::require_aligned(from, sizeof(Word));
  return *from;
}
inline Sixteen read_sixteen(const void* from) {
  emulation::require_aligned(from, sizeof(Sixteen));
  return *static_cast<const Sixteen*>(from);
}
inline void write_sixteen(void* to, const Sixteen& from) {
  emulation::require_aligned(to, sizeof from);
  *static_cast<Sixteen*>(to) = from;
}
inline uint32_t chosen_bytes(uint32_t low, uint32_t high, unsigned which) {
  const uint64_t both = static_cast<uint64_t>(high) << 32 | low;
  uint32_t bytes = 0;
  for (unsigned i = 0; i < 4; ++i) bytes |= static_cast<uint32_t>(both >> (which >> 4 * i & 7) * 8 & 0xFF) << 8 * i;
  return bytes;
}
inline uint32_t chosen_signs(uint32_t word, unsigned which) {
  uint32_t bytes = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const uint32_t byte = word >> (which >> 4 * i & 3) * 8 & 0xFF;
    bytes |= ((which >> 4 * i & 8) == 0 ? byte : byte >= 0x80 ? 0xFFu : 0u) << 8 * i;
  }
  return bytes;
}
inline uint32_t larger_halves(uint32_t a, uint32_t b) {
  return std::max(a & 0xFFFFu, b & 0xFFFFu) | std::max(a & 0xFFFF0000u, b & 0xFFFF0000u);
}
inline uint32_t with_sign_of(uint32_t bits, float result) { return bits << 1 | (result < 0 ? 1u : 0u); }
template <bool magnitude>
inline void count_beyond(unsigned& count, float value, float limit) {
  count += (magnitude ? std::fabs(value) : value) > limit ? 1 : 0;
}
inline float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
inline float sum_flushed(float a, float b) { return flushed(flushed(a) + flushed(b)); }
inline float product_flushed(float a, float b) { return flushed(flushed(a) * flushed(b)); }
inline uint32_t truncated(float x) { return static_cast<uint32_t>(x); }
inline uint32_t bf16_pair(float low, float high) { return to_bf16(low) | static_cast<uint32_t>(to_bf16(high)) << 16; }

inline void copy_async(void* to, const void* from, bool inside) {
  emulation::copy_async({to, inside ? from : nullptr});
}
inline void commit_copies() { emulation::commit_copies(); }
template <int left>
inline void wait_copies() {
  emulation::wait_copies(left);
}

template <class A, class B>
inline int32_t add_four_products(uint32_t a, uint32_t b, int32_t sum) {
  for (int i = 0; i < 4; ++i) sum += static_cast<A>(a >> 8 * i) * static_cast<B>(b >> 8 * i);
  return sum;
}

// The rows that the warp's lanes name, of 16 bytes.
inline const emulation::Exchange& exchange_rows(const void* row) {
  emulation::Exchange& exchange = emulation::next_exchange();
  emulation::require_aligned(row, 16);
  exchange.addresses[emulation::thread->lane] = row;
  emulation::warp_barrier();
  return exchange;
}
inline void load_matrices(uint32_t (&to)[4], const void* row) {
  const emulation::Exchange& exchange = exchange_rows(row);
  const unsigned lane = emulation::thread->lane;
  for (unsigned matrix = 0; matrix < 4; ++matrix)
    std::memcpy(&to[matrix], static_cast<const char*>(exchange.addresses[matrix * 8 + lane / 4]) + lane % 4 * 4, 4);
}
inline void load_turned(uint32_t (&to)[4], const void* row) {
  const emulation::Exchange& exchange = exchange_rows(row);
  const unsigned lane = emulation::thread->lane;
  for (unsigned matrix = 0; matrix < 4; ++matrix)
    for (unsigned half = 0; half < 2; ++half)
      std::memcpy(reinterpret_cast<char*>(&to[matrix]) + 2 * half,
                  static_cast<const char*>(exchange.addresses[matrix * 8 + lane % 4 * 2 + half]) + lane / 4 * 2, 2);
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

inline unsigned arrive(unsigned* counter, unsigned blocks) {
  const unsigned before = atomicAdd(counter, 1u);
  emulation::arrive(counter, before + 1 == blocks);
  if (before + 1 == blocks) *counter = 0;
  return before;
}
inline bool last_to_arrive(unsigned* counter, unsigned blocks) {
  static bool last;  // shared memory
  __syncthreads();
  if (emulation::thread->linear == 0) last = arrive(counter, blocks) + 1 == blocks;
  __syncthreads();
  return last;
}
inline void add_atomically(int64_t* to, int64_t value) { atomicAdd(to, value); }

}  // namespace octet::cuda
