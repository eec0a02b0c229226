#include "tests/memory/guarded.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "kernels/shared/random.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) (static_cast<void>(address), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) (static_cast<void>(address), static_cast<void>(bytes))
#endif

namespace octet::test {
namespace {

// The bytes beside memory, by their place in a page. Neighbours differ, so that few writes can go unseen.
struct Pattern {
  uint8_t bytes[2 * GuardedMemory::page];
  Pattern() {
    for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] = static_cast<uint8_t>(0xA5 + 31 * (i % GuardedMemory::page));
  }
  const uint8_t* at(const char* address) const {
    return bytes + reinterpret_cast<uintptr_t>(address) % GuardedMemory::page;
  }
};
const Pattern pattern;

// Never destroyed, since memory may be freed when the program ends.
struct Known {
  std::mutex mutex;                                     // guards all below
  std::map<const char*, const GuardedMemory*> present;  // by the first page
  std::shared_ptr<const std::string> scope = std::make_shared<std::string>();
  std::string (*running_test)() = nullptr;
  std::atomic<const char*> kernel = nullptr;
  struct sigaction before;
};
Known& known() {
  static Known& all = *new Known;
  return all;
}

[[noreturn]] void fail(const std::string& sentence) {
  const Known& k = known();
  std::string text = sentence + "\n  test: " + (k.running_test != nullptr ? k.running_test() : "none");
  if (k.kernel != nullptr) text += std::string("\n  last kernel: ") + k.kernel.load();
  text += "\n  case: " + *k.scope + "\n  OCTET_TEST_SEED=" + std::to_string(run_seed()) + " repeats it\n";
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) std::abort();
  _exit(1);
}

// Takes no lock, which the thread that faulted may hold: the program ends here.
void on_fault(int, siginfo_t* info, void*) {
  for (const auto& [pages, memory] : known().present)
    if (memory->owns(info->si_addr)) fail(memory->describe(info->si_addr));
  sigaction(SIGSEGV, &known().before, nullptr);  // the instruction faults again, and is what it would have been
}
// On a stack of its own, since emulated kernels run on small ones.
void watch_faults() {
  static char stack[256 * 1024];
  stack_t own{};
  own.ss_sp = stack;
  own.ss_size = sizeof stack;
  sigaltstack(&own, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &known().before);
}

}  // namespace

uint32_t run_seed() {
  static const uint32_t seed = [] {
    const char* const given = std::getenv("OCTET_TEST_SEED");
    if (given != nullptr) return static_cast<uint32_t>(std::strtoul(given, nullptr, 10));
    return static_cast<uint32_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }();
  return seed;
}

Scope::Scope(const std::string& name) {
  Known& k = known();
  const std::lock_guard lock(k.mutex);
  before_ = k.scope;
  k.scope = std::make_shared<std::string>(before_->empty() ? name : *before_ + ", " + name);
}
Scope::~Scope() {
  const std::lock_guard lock(known().mutex);
  known().scope = before_;
}
void name_tests(std::string (*running)()) { known().running_test = running; }
void name_kernel(const char* launched) { known().kernel = launched; }

GuardedMemory::Side GuardedMemory::next_side() {
  static std::atomic<uint32_t> count = 0;
  return philox(count++, 0, 0, run_seed()).word[0] % 2 == 0 ? Side::end : Side::start;
}

GuardedMemory::GuardedMemory(size_t bytes, size_t alignment, Side side, uint8_t fill) : bytes_(bytes) {
  static const bool watched = (watch_faults(), true);
  static_cast<void>(watched);
  constexpr size_t least = 64;  // bytes of the pattern on the side that is open
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  page_bytes_ = (rounded + least + page - 1) / page * page;
  void* const mapped = mmap(nullptr, page_bytes_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  pages_ = static_cast<char*>(mapped) + page;
  if (mprotect(pages_, page_bytes_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  data_ = side == Side::start ? pages_ : pages_ + page_bytes_ - rounded;
  char* const end = data_ + bytes;
  const auto before = static_cast<size_t>(data_ - pages_), behind = page_bytes_ - before - bytes;
  std::memcpy(pages_, pattern.at(pages_), before);
  std::memset(data_, fill, bytes);
  std::memcpy(end, pattern.at(end), behind);
  ASAN_POISON_MEMORY_REGION(pages_, before);
  ASAN_POISON_MEMORY_REGION(end, behind);
  const std::lock_guard lock(known().mutex);
  made_in_ = known().scope;
  known().present[pages_] = this;
}
GuardedMemory::~GuardedMemory() {
  check();
  {
    const std::lock_guard lock(known().mutex);
    known().present.erase(pages_);
  }
  munmap(pages_ - page, page_bytes_ + 2 * page);
}

void GuardedMemory::check() const {
  ASAN_UNPOISON_MEMORY_REGION(pages_, page_bytes_);
  const auto require = [&](const char* from, size_t count) {
    const uint8_t* const wanted = pattern.at(from);
    if (std::memcmp(from, wanted, count) == 0) return;
    for (size_t i = 0; i < count; ++i)
      if (static_cast<uint8_t>(from[i]) != wanted[i]) fail(describe(from + i));
  };
  const char* const end = data_ + bytes_;
  require(pages_, static_cast<size_t>(data_ - pages_));
  require(end, static_cast<size_t>(pages_ + page_bytes_ - end));
}

bool GuardedMemory::owns(const void* address) const {
  const auto* const at = static_cast<const char*>(address);
  return at >= pages_ - page && at < pages_ + page_bytes_ + page;
}
std::string GuardedMemory::describe(const void* address) const {
  const auto *const at = static_cast<const char*>(address), *const end = data_ + bytes_;
  std::string text;
  if (at >= data_ && at < end)
    text = "the host touched byte " + std::to_string(at - data_) + " of closed memory";
  else
    text = std::string(at >= pages_ && at < pages_ + page_bytes_ ? "a write at" : "an access to") + " byte " +
           (at < data_ ? std::to_string(data_ - at) + " before" : std::to_string(at - end + 1) + " behind") +
           " the memory";
  return text + " of " + std::to_string(bytes_) + " bytes that was made in: " + *made_in_;
}

}  // namespace octet::test
