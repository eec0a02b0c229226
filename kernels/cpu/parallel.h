// Loops over threads. The work is cut by its size alone, never by the number of threads, so results cannot depend on
// them.
#pragma once
#include <omp.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#error "say how this processor flushes subnormal numbers: they are part of the results"
#endif

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>

namespace octet::cpu {

// Subnormal numbers read and become zero while this lives: they would slow a pass down several times.
class FlushSubnormals {
 public:
  FlushSubnormals() : saved_(control()) { set_control(saved_ | flush); }
  ~FlushSubnormals() { set_control(saved_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr uint64_t flush = 0x8040;  // MXCSR: FTZ and DAZ
  static uint64_t control() { return _mm_getcsr(); }
  static void set_control(uint64_t bits) { _mm_setcsr(static_cast<unsigned>(bits)); }
#else
  static constexpr uint64_t flush = 1u << 24;  // FPCR: FZ
  static uint64_t control() {
    uint64_t bits;
    asm volatile("mrs %0, fpcr" : "=r"(bits));
    return bits;
  }
  static void set_control(uint64_t bits) { asm volatile("msr fpcr, %0" : : "r"(bits) : "memory"); }
#endif
  const uint64_t saved_;
};

// f(i) for i in [0, count); neighbours go to the same thread. An exception of f reaches the caller after the loop; of
// several, the first.
template <class F>
void parallel_for(int threads, int64_t count, const F& f) {
  const int team = static_cast<int>(std::min<int64_t>(threads, count));
  if (team <= 0) return;
  std::atomic_flag thrown;
  std::exception_ptr error;
#pragma omp parallel num_threads(team)
  {
    const FlushSubnormals flush;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < count; ++i) {
      try {
        f(i);
      } catch (...) {
        if (!thrown.test_and_set()) error = std::current_exception();
      }
    }
  }
  if (error) std::rethrow_exception(error);
}

// f(first, count) for the pieces of [0, total), each of `size` elements but the last.
template <class F>
void parallel_pieces(int threads, int64_t total, int64_t size, const F& f) {
  parallel_for(threads, (total + size - 1) / size, [&](int64_t i) { f(i * size, std::min(size, total - i * size)); });
}

}  // namespace octet::cpu
