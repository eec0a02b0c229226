// Loops over threads. Results never depend on the number of threads: where sums of real numbers are taken, the work is
// cut by its size alone.
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
#include <vector>

#include "kernels/loop_log.h"

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

// For how many threads work is cut, and where the backend notes what they do. Teams are of all threads or of one:
// libgomp ends those that a smaller team has no use for, and creates others for the next one.
struct Threads {
  Threads(int of, LoopLog* notes = nullptr) : count(of), log(notes) {}  // NOLINT: a number of threads is all it needs
  int count;
  LoopLog* log;
  int running() const { return log != nullptr && log->alone() ? 1 : count; }
};

// One of the threads that run a region together. All of them call the same loops in the same order.
class Team {
 public:
  explicit Team(std::vector<LoopLog::Turn>* turns) : turns_(turns) {}
  int thread() const { return omp_get_thread_num(); }
  int size() const { return omp_get_num_threads(); }
  // f(i) for i in [0, count); neighbours go to the same thread. wait: until all threads are done.
  template <class F>
  void share(int64_t count, const F& f, bool wait = true) const {
    const LoopLog::Watch watch(turns_, count);
#pragma omp for schedule(static) nowait
    for (int64_t i = 0; i < count; ++i) f(i);
    watch.stop();
    if (wait) {
#pragma omp barrier
    }
  }
  // The same; a thread that is free takes the next `together` numbers.
  template <class F>
  void deal(int64_t count, int64_t together, const F& f, bool wait = true) const {
    const LoopLog::Watch watch(turns_, (count + together - 1) / together);
#pragma omp for schedule(dynamic, together) nowait
    for (int64_t i = 0; i < count; ++i) f(i);
    watch.stop();
    if (wait) {
#pragma omp barrier
    }
  }

 private:
  std::vector<LoopLog::Turn>* const turns_;  // of this thread in the region; null: nobody asks
};

// f(Team) on each thread.
template <class F>
void run_team(const Threads& threads, const F& f) {
  const bool logs = threads.log != nullptr && threads.log->on();
  std::vector<std::vector<LoopLog::Turn>> turns(logs ? static_cast<size_t>(threads.running()) : 0);
#pragma omp parallel num_threads(threads.running())
  f(Team(logs ? &turns[static_cast<size_t>(omp_get_thread_num())] : nullptr));
  if (logs) threads.log->add(turns);
}

// f(i) for i in [0, count); neighbours go to the same thread. An exception of f reaches the caller after the loop; of
// several, the first.
template <class F>
void parallel_for(Threads threads, int64_t count, const F& f) {
  if (count <= 0) return;
  if (count == 1) threads.count = 1;
  std::atomic_flag thrown;
  std::exception_ptr error;
  run_team(threads, [&](const Team& team) {
    const FlushSubnormals flush;
    team.share(count, [&](int64_t i) {
      try {
        f(i);
      } catch (...) {
        if (!thrown.test_and_set()) error = std::current_exception();
      }
    });
  });
  if (error) std::rethrow_exception(error);
}

// f(first, count) for the pieces of [0, total), each of `size` elements but the last.
template <class F>
void parallel_pieces(const Threads& threads, int64_t total, int64_t size, const F& f) {
  parallel_for(threads, (total + size - 1) / size, [&](int64_t i) { f(i * size, std::min(size, total - i * size)); });
}

// The pieces of several tensors one after the other, each of at most `size` elements: for many that are short.
struct Piece {
  size_t tensor;
  int64_t first, count;
};
template <class ElementsOf>
std::vector<Piece> pieces_of(size_t tensors, int64_t size, const ElementsOf& elements_of) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < tensors; ++i)
    for (int64_t first = 0; first < elements_of(i); first += size)
      pieces.push_back({i, first, std::min(size, elements_of(i) - first)});
  return pieces;
}

}  // namespace octet::cpu
