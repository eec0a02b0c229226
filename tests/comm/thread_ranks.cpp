#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/comm/ranks.h"

namespace octet::test {
namespace {

// Ranks as threads. In a collective every rank shows its buffer and waits for all. It then computes its result from the
// buffers of all ranks, in rank order, waits for all again, and writes the result.
class ThreadTransport final : public Transport {
 public:
  struct Group {
    explicit Group(int size) : barrier(size), shown(static_cast<size_t>(size)) {}
    std::barrier<> barrier;
    std::vector<const void*> shown;
    std::mutex mutex;
    std::shared_ptr<Group> next;  // group of the duplicates
    int duplicated = 0;
  };
  ThreadTransport(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

  std::string name() const override { return "threads"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->shown.size()); }
  int local_rank() const override { return rank_; }
  int local_size() const override { return size(); }
  std::unique_ptr<Transport> duplicate() override {
    std::shared_ptr<Group> next;
    {
      const std::lock_guard lock(group_->mutex);
      if (group_->duplicated++ % size() == 0) group_->next = std::make_shared<Group>(size());
      next = group_->next;
    }
    wait();
    return std::make_unique<ThreadTransport>(next, rank_);
  }

  void all_reduce_sum(std::span<float> values) override { all_reduce(values, std::plus<>()); }
  void all_reduce_sum(std::span<double> values) override { all_reduce(values, std::plus<>()); }
  void all_reduce_sum(std::span<int64_t> values) override { all_reduce(values, std::plus<>()); }
  void all_reduce_max(std::span<float> values) override {
    all_reduce(values, [](float a, float b) { return std::max(a, b); });
  }
  void reduce_sum(std::span<int64_t> values, int root) override {
    const std::vector<int64_t> result = combine<int64_t>(values, std::plus<>());
    if (rank_ == root) std::ranges::copy(result, values.begin());
    wait();
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    show(bytes.data());
    if (rank_ != root) std::copy_n(of<std::byte>(root), bytes.size(), bytes.begin());
    wait();
  }
  void all_to_all(std::span<const std::byte> send, std::span<std::byte> receive, size_t block_bytes) override {
    show(send.data());
    for (int rank = 0; rank < size(); ++rank)
      std::copy_n(of<std::byte>(rank) + block_bytes * static_cast<size_t>(rank_), block_bytes,
                  receive.data() + block_bytes * static_cast<size_t>(rank));
    wait();
    count_all_to_all(send.size(), receive.size(), block_bytes);
  }
  void all_gather(std::span<const std::byte> send, std::span<std::byte> receive) override {
    show(send.data());
    for (int rank = 0; rank < size(); ++rank)
      std::copy_n(of<std::byte>(rank), send.size(), receive.data() + send.size() * static_cast<size_t>(rank));
    wait();
    count_all_gather(send.size(), receive.size());
  }
  void barrier() override { wait(); }
  [[noreturn]] void abort(int code) noexcept override { std::_Exit(code); }

 private:
  void wait() { group_->barrier.arrive_and_wait(); }
  void show(const void* buffer) {
    group_->shown[static_cast<size_t>(rank_)] = buffer;
    wait();
  }
  template <class T>
  const T* of(int rank) const {
    return static_cast<const T*>(group_->shown[static_cast<size_t>(rank)]);
  }
  template <class T, class Op>
  std::vector<T> combine(std::span<const T> values, Op op) {
    show(values.data());
    std::vector<T> result(of<T>(0), of<T>(0) + values.size());
    for (int rank = 1; rank < size(); ++rank)
      for (size_t i = 0; i < result.size(); ++i) result[i] = op(result[i], of<T>(rank)[i]);
    wait();
    return result;
  }
  template <class T, class Op>
  void all_reduce(std::span<T> values, Op op) {
    const std::vector<T> result = combine<T>(values, op);
    std::ranges::copy(result, values.begin());
    wait();
    count_all_reduce(values.size_bytes());
  }

  const std::shared_ptr<Group> group_;
  const int rank_;
};

}  // namespace

void on_threads(int ranks, const std::function<void(Transport&)>& body) {
  const auto group = std::make_shared<ThreadTransport::Group>(ranks);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        ThreadTransport transport(group, rank);
        body(transport);
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace octet::test
