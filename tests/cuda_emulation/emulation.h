// Runs CUDA kernels on the host: the same .cu text, compiled by the host compiler. One fiber per CUDA thread, all on
// one processor thread, block after block, so results and schedules are reproducible. What it covers: block barriers,
// warp collectives, shared memory (static), atomics, asynchronous copies (done when they are waited for, so that a
// missing wait reads stale memory), tensor-core products. Threads and blocks run in either order. What it cannot show:
// other races between threads that do not meet at a barrier, memory ordering, speed.
#pragma once
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "tests/cuda_emulation/observer.h"
#include "tests/cuda_emulation/recording.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static
#define __restrict__ __restrict

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

namespace octet::emulation {

struct Copy {  // of sixteen bytes
  void* to;
  const void* from;  // null: zeros
};

// What a running kernel sees of its thread.
struct Thread {
  dim3 index;
  unsigned linear = 0, lane = 0, warp = 0;
  unsigned barriers = 0;            // of the block, that it has reached
  unsigned collectives = 0;         // of the warp; their parity chooses one of two exchange tables
  std::vector<Copy> copies;         // asynchronous, in order
  std::vector<size_t> copy_groups;  // ends of the committed groups in `copies`
};

// What the lanes of a warp tell each other. Two tables by turns: a lane reaches the next use of the same table only
// after all lanes have read this one.
struct Exchange {
  alignas(16) uint32_t words[6][32];
  uint64_t values[32];
  const void* addresses[32];
};

extern Thread* thread;  // the running one
extern dim3 block_index, block_size, grid_size;
extern const char* kernel_name;
extern uint32_t launches;  // so far

void block_barrier();
Exchange& next_exchange();  // of this thread's warp; fill in, then meet
void warp_barrier();        // every lane of the warp must come

// A GPU reads and writes so many bytes at once where the address is a multiple of them alone.
[[noreturn]] void refuse_misaligned();
inline void require_aligned(const void* address, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0) refuse_misaligned();
}

// Asynchronous copies of the running thread: begun, made a group, and waited for but the last `left` groups.
void copy_async(Copy);
void commit_copies();
void wait_copies(size_t left);

inline void atomic_access(const void* address, size_t bytes, const void* code) {
  if (observer != nullptr) observer->access(address, bytes, Use::atomic, code);
}

// The running block has arrived at a counter, after a barrier; the last one may use what the others wrote before.
inline void arrive(const void* counter, bool last) {
  if (observer != nullptr) observer->arrive(counter, last);
}

// Calls body as every thread of the grid, or keeps the call in the program that is recorded. flush_subnormals:
// single-precision subnormal numbers are zero (nvcc -ftz=true).
void launch(const char* kernel, dim3 grid, dim3 block, bool flush_subnormals, const std::function<void()>& body);

template <class T>
T shuffle(T value, unsigned source) {
  static_assert(sizeof(T) <= 8);
  Exchange& exchange = next_exchange();
  std::memcpy(&exchange.values[thread->lane], &value, sizeof(T));
  warp_barrier();
  T result;
  std::memcpy(&result, &exchange.values[source % 32], sizeof(T));
  return result;
}

}  // namespace octet::emulation

#define threadIdx (::octet::emulation::thread->index)
#define blockIdx (::octet::emulation::block_index)
#define blockDim (::octet::emulation::block_size)
#define gridDim (::octet::emulation::grid_size)

inline void __syncthreads() { ::octet::emulation::block_barrier(); }
inline void __threadfence() {}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return ::octet::emulation::shuffle(value, ::octet::emulation::thread->lane ^ static_cast<unsigned>(mask));
}
template <class T>
[[gnu::noinline, gnu::no_sanitize_thread]] T atomicAdd(T* to, T value) {
  ::octet::emulation::atomic_access(to, sizeof(T), __builtin_return_address(0));
  const T old = *to;
  *to = old + value;
  return old;
}
template <class T>
[[gnu::noinline, gnu::no_sanitize_thread]] T atomicMax(T* to, T value) {
  ::octet::emulation::atomic_access(to, sizeof(T), __builtin_return_address(0));
  const T old = *to;
  *to = old > value ? old : value;
  return old;
}
inline int __syncthreads_or(int value) {
  static int any;  // shared memory
  __syncthreads();
  if (::octet::emulation::thread->linear == 0) any = 0;
  __syncthreads();
  if (value != 0) atomicAdd(&any, 1);
  __syncthreads();
  return any;
}
inline uint32_t __float_as_uint(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}
inline float __uint_as_float(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}
