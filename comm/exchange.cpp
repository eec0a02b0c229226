#include "comm/exchange.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/exchange_tasks.h"
#include "kernels/base/error.h"

namespace octet {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class ThreadedExchange final : public GradientExchange {
 public:
  ThreadedExchange(const ExchangeConfig& config, std::unique_ptr<Transport> transport, GradientBuffer gradient,
                   std::vector<GradientSlice> slices, uint64_t seed)
      : transport_(std::move(transport)),
        overlap_(config.overlap),
        tasks_(config, *transport_, make_host_codec, gradient, std::move(slices), seed),
        done_(tasks_.count()) {
    if (tasks_.count() > 0) thread_ = std::thread(&ThreadedExchange::communicate, this);
  }

  ~ThreadedExchange() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    work_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  void begin(uint32_t step) override {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    REQUIRE(done_ == tasks_.count(), "call finish() first", "the exchange of step ", step,
            " begins before the one of step ", tasks_.step(), " has ended");
    tasks_.begin(step);
    announced_ = done_ = 0;
  }

  bool reads_gradients() const override { return tasks_.count() > 0; }

  void ready(size_t slice) override {
    tasks_.ready(slice);
    if (overlap_) announce();
  }

  void finish() override {
    tasks_.require_all_ready();
    const Clock::time_point start = Clock::now();
    announce();
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return error_ || done_ == tasks_.count(); });
    wait_seconds_ += seconds_since(start);
    if (error_) std::rethrow_exception(error_);
  }

  void wait() override {}

  int64_t wire_bytes() const override {
    const std::lock_guard lock(mutex_);
    return wire_bytes_;
  }
  double busy_seconds() const override {
    const std::lock_guard lock(mutex_);
    return busy_seconds_;
  }
  double wait_seconds() const override {
    const std::lock_guard lock(mutex_);
    return wait_seconds_;
  }

 private:
  // Gives the tasks whose slices are all ready to the communication thread.
  void announce() {
    const size_t complete = tasks_.complete();
    if (complete == announced_) return;
    {
      const std::lock_guard lock(mutex_);
      announced_ = complete;
    }
    work_.notify_one();
  }

  void communicate() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_.wait(lock, [&] { return stop_ || done_ < announced_; });
      if (stop_) return;
      const size_t task = done_;
      const uint32_t step = tasks_.step();
      lock.unlock();
      const Clock::time_point start = Clock::now();
      std::exception_ptr error;
      try {
        tasks_.run(task, step);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      busy_seconds_ += seconds_since(start);
      wire_bytes_ = transport_->wire_bytes();
      error_ = error;
      if (!error_) ++done_;
      if (error_ || done_ == tasks_.count()) idle_.notify_one();
      if (error_) return;
    }
  }

  const std::unique_ptr<Transport> transport_;
  const bool overlap_;
  ExchangeTasks tasks_;  // only the caller's thread uses its slices

  mutable std::mutex mutex_;  // guards the step and all members below; only the caller's thread writes announced_
  std::condition_variable work_, idle_;
  bool stop_ = false;
  size_t announced_ = 0, done_;  // tasks
  std::exception_ptr error_;     // of the thread, which has then ended
  int64_t wire_bytes_ = 0;
  double busy_seconds_ = 0, wait_seconds_ = 0;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_exchange(const ExchangeConfig& config, std::unique_ptr<Transport> transport,
                                                GradientBuffer gradient, std::vector<GradientSlice> slices,
                                                uint64_t seed) {
  return std::make_unique<ThreadedExchange>(config, std::move(transport), gradient, std::move(slices), seed);
}

}  // namespace octet
