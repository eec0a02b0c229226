// Loops over threads. The work is cut by its size alone, never by the number of threads, so results cannot depend on
// them.
#pragma once
#include <omp.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cstdint>

namespace octet::cpu {

// Subnormal numbers read and become zero while this lives: they would slow a pass down several times.
class FlushSubnormals {
 public:
#ifdef __SSE2__
  FlushSubnormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040u); }
  ~FlushSubnormals() { _mm_setcsr(saved_); }
#else
  FlushSubnormals() : saved_(0) {}
#endif
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  unsigned saved_;
};

// f(i) for i in [0, count); neighbours go to the same thread. f must not throw.
template <class F>
void parallel_for(int threads, int64_t count, const F& f) {
  const int team = static_cast<int>(std::min<int64_t>(threads, count));
  if (team <= 0) return;
#pragma omp parallel num_threads(team)
  {
    const FlushSubnormals flush;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < count; ++i) f(i);
  }
}

// f(first, count) for the pieces of [0, total), each of `size` elements but the last.
template <class F>
void parallel_pieces(int threads, int64_t total, int64_t size, const F& f) {
  parallel_for(threads, (total + size - 1) / size, [&](int64_t i) { f(i * size, std::min(size, total - i * size)); });
}

}  // namespace octet::cpu
