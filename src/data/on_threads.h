// Independent work on threads.
#pragma once
#include <atomic>
#include <cstdint>
#include <future>
#include <vector>

namespace octet {

// Calls work(item) for the items 0 .. count - 1, which the threads take in order. After an exception no thread takes
// another item, and one of the exceptions is thrown.
void on_threads(int64_t threads, size_t count, const auto& work) {
  std::atomic<size_t> next = 0;
  std::vector<std::future<void>> running;
  for (int64_t thread = 0; thread < threads; ++thread)
    running.push_back(std::async(std::launch::async, [&] {
      try {
        for (size_t item; (item = next++) < count;) work(item);
      } catch (...) {
        next = count;
        throw;
      }
    }));
  for (auto& thread : running) thread.get();  // after an error, the destructors wait for the others
}

}  // namespace octet
