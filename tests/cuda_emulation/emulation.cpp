#include "tests/cuda_emulation/emulation.h"

#include <setjmp.h>
#include <ucontext.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "tests/cuda_emulation/device_memory.h"
#include "tests/memory/guarded.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define OCTET_ADDRESS_SANITIZER 1
#else
#define OCTET_ADDRESS_SANITIZER 0
#endif

namespace octet::emulation {

Thread* thread = nullptr;
thread_local Program* recording = nullptr;
bool record(const std::function<void()>& call) {
  if (recording != nullptr) recording->add(call);
  return recording != nullptr;
}
bool record(const void* stream, const std::function<void()>& call) {
  if (recording != nullptr) recording->use(stream);
  return record(call);
}
dim3 block_index, block_size, grid_size;
const char* kernel_name = nullptr;
uint32_t launches = 0;
Observer* observer = nullptr;

namespace {

constexpr size_t copy_bytes = 16;

constexpr size_t stack_bytes = 256 * 1024;
enum class State : uint8_t { ready, at_warp_barrier, at_block_barrier, done };

// A fiber serves one CUDA thread after another and never ends. ucontext makes its stack; the switches themselves are
// setjmp and longjmp, which make no system calls.
struct Fiber {
  Thread thread;
  State state = State::done;
  jmp_buf resume;
  std::unique_ptr<char[]> stack{new char[stack_bytes]};
  void* fake_stack = nullptr;
};

std::vector<std::unique_ptr<Fiber>> fibers;
std::vector<Exchange> exchanges;  // two per warp
Fiber* running = nullptr;
jmp_buf scheduler;
ucontext_t creator;
#if OCTET_ADDRESS_SANITIZER
void* scheduler_fake_stack = nullptr;
const void* scheduler_stack = nullptr;
size_t scheduler_stack_bytes = 0;
#endif
const std::function<void()>* kernel_body = nullptr;
// Every second block runs its threads, and every second launch its blocks, from the last to the first: what reads
// before or after another's write without a barrier gets the wrong value in one of the two orders.
bool threads_backwards = false;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "emulated kernel %s, block (%u, %u, %u): %s\n", kernel_name, block_index.x, block_index.y,
               block_index.z, what);
  std::abort();
}

void leave_for_fiber([[maybe_unused]] Fiber& fiber) {
#if OCTET_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&scheduler_fake_stack, fiber.stack.get(), stack_bytes);
#endif
}
void arrived_in_scheduler() {
#if OCTET_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(scheduler_fake_stack, nullptr, nullptr);
#endif
}
void arrived_in_fiber([[maybe_unused]] Fiber& fiber) {
#if OCTET_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(fiber.fake_stack, &scheduler_stack, &scheduler_stack_bytes);
#endif
}

void switch_to_scheduler(Fiber& fiber) {
  if (_setjmp(fiber.resume) == 0) {
#if OCTET_ADDRESS_SANITIZER
    __sanitizer_start_switch_fiber(&fiber.fake_stack, scheduler_stack, scheduler_stack_bytes);
#endif
    _longjmp(scheduler, 1);
  }
  arrived_in_fiber(fiber);
}

void serve() {
  Fiber& fiber = *running;
  arrived_in_fiber(fiber);
  switch_to_scheduler(fiber);  // created; the first thread comes later
  for (;;) {
    (*kernel_body)();
    fiber.state = State::done;
    switch_to_scheduler(fiber);
  }
}

void create(Fiber& fiber) {
  running = &fiber;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = fiber.stack.get();
  context.uc_stack.ss_size = stack_bytes;
  context.uc_link = nullptr;
  makecontext(&context, serve, 0);
  if (_setjmp(scheduler) == 0) {
    leave_for_fiber(fiber);
    swapcontext(&creator, &context);
  }
  arrived_in_scheduler();
}

void run(Fiber& fiber) {
  running = &fiber;
  thread = &fiber.thread;
  if (_setjmp(scheduler) == 0) {
    leave_for_fiber(fiber);
    _longjmp(fiber.resume, 1);
  }
  arrived_in_scheduler();
}

// i, or the index as far from the end.
unsigned in_order(unsigned i, unsigned count, bool backwards) { return backwards ? count - 1 - i : i; }

// Until every lane has ended or waits for the other warps.
void run_warp(unsigned first, unsigned end) {
  for (;;) {
    unsigned at_warp = 0, at_block = 0, done = 0;
    for (unsigned i = 0; i < end - first; ++i) {
      Fiber& fiber = *fibers[first + in_order(i, end - first, threads_backwards)];
      if (fiber.state == State::ready) run(fiber);
      at_warp += fiber.state == State::at_warp_barrier;
      at_block += fiber.state == State::at_block_barrier;
      done += fiber.state == State::done;
    }
    if (at_block + done == end - first) return;
    if (at_warp != end - first) fail("a warp collective that not every lane reached");
    for (unsigned i = first; i < end; ++i) fibers[i]->state = State::ready;
  }
}

void run_block() {
  const unsigned count = block_size.x * block_size.y * block_size.z;
  for (unsigned i = 0; i < count; ++i) {
    Thread& own = fibers[i]->thread;
    own.index = dim3(i % block_size.x, i / block_size.x % block_size.y, i / (block_size.x * block_size.y));
    own.linear = i;
    own.lane = i % 32;
    own.warp = i / 32;
    own.barriers = own.collectives = 0;
    fibers[i]->state = State::ready;
  }
  for (;;) {
    const unsigned warps = (count + 31) / 32;
    for (unsigned i = 0; i < warps; ++i) {
      const unsigned first = 32 * in_order(i, warps, threads_backwards);
      run_warp(first, std::min(first + 32, count));
    }
    bool waiting = false;
    for (unsigned i = 0; i < count; ++i)
      if (fibers[i]->state == State::at_block_barrier) {
        fibers[i]->state = State::ready;
        waiting = true;
      }
    if (!waiting) break;
  }
  for (unsigned i = 0; i < count; ++i)
    if (!fibers[i]->thread.copies.empty()) fail("a thread ended before its asynchronous copies were waited for");
}

// Subnormal numbers read and become zero while this lives.
class FlushSubnormals {
 public:
#ifdef __SSE2__
  explicit FlushSubnormals(bool flush) : saved_(_mm_getcsr()) {
    if (flush) _mm_setcsr(saved_ | 0x8040u);
  }
  ~FlushSubnormals() { _mm_setcsr(saved_); }
#else
  explicit FlushSubnormals(bool) : saved_(0) {}
#endif
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  unsigned saved_;
};

}  // namespace

void block_barrier() {
  ++thread->barriers;
  running->state = State::at_block_barrier;
  switch_to_scheduler(*running);
}

void warp_barrier() {
  running->state = State::at_warp_barrier;
  switch_to_scheduler(*running);
}

void refuse_misaligned() { fail("a misaligned address"); }

// A race shows where a copy is begun and where it arrives: it may write at any time between.
void copy_async(Copy copy) {
  require_aligned(copy.to, copy_bytes);
  require_aligned(copy.from, copy_bytes);
  if (observer != nullptr) observer->access(copy.to, copy_bytes, Use::write, __builtin_return_address(0));
  thread->copies.push_back(copy);
}
void commit_copies() { thread->copy_groups.push_back(thread->copies.size()); }
void wait_copies(size_t left) {
  std::vector<Copy>& copies = thread->copies;
  std::vector<size_t>& groups = thread->copy_groups;
  if (groups.size() <= left) return;
  const size_t finished = groups.size() - left, end = groups[finished - 1];
  for (size_t i = 0; i < end; ++i) {
    const Copy& copy = copies[i];
    if (observer != nullptr) {
      observer->access(copy.to, copy_bytes, Use::write, __builtin_return_address(0));
      if (copy.from != nullptr) observer->access(copy.from, copy_bytes, Use::read, __builtin_return_address(0));
    }
    if (copy.from != nullptr)
      std::memcpy(copy.to, copy.from, copy_bytes);
    else
      std::memset(copy.to, 0, copy_bytes);
  }
  copies.erase(copies.begin(), copies.begin() + static_cast<std::ptrdiff_t>(end));
  groups.erase(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(finished));
  for (size_t& group : groups) group -= end;
}

Exchange& next_exchange() { return exchanges[thread->warp * 2 + thread->collectives++ % 2]; }

void launch(const char* kernel, dim3 grid, dim3 block, bool flush_subnormals, const std::function<void()>& body) {
  if (record([=] { launch(kernel, grid, block, flush_subnormals, body); })) return;
  static std::mutex one_at_a_time;  // ranks may be threads
  const std::lock_guard lock(one_at_a_time);
  kernel_name = kernel;
  test::name_kernel(kernel);
  ++launches;
  const unsigned count = block.x * block.y * block.z;
  if (count == 0 || count > 1024) fail("a block must have 1 to 1024 threads");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7FFFFFFF || grid.y > 65535 || grid.z > 65535)
    fail("the grid's extent");
  while (fibers.size() < count) {
    fibers.push_back(std::make_unique<Fiber>());
    create(*fibers.back());
  }
  exchanges.resize((count + 31) / 32 * 2);
  kernel_body = &body;
  block_size = block;
  grid_size = grid;
  const cuda::OpenDeviceMemory open;
  const FlushSubnormals flush(flush_subnormals);
  static bool blocks_backwards = false;
  blocks_backwards = !blocks_backwards;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        block_index = dim3(in_order(x, grid.x, blocks_backwards), in_order(y, grid.y, blocks_backwards),
                           in_order(z, grid.z, blocks_backwards));
        threads_backwards = (block_index.x + block_index.y + block_index.z + unsigned{blocks_backwards}) % 2 == 1;
        run_block();
      }
  thread = nullptr;
}

}  // namespace octet::emulation
