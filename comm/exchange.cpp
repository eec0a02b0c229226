#include "comm/exchange.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/quantized_all_reduce.h"
#include "kernels/base/error.h"

namespace octet {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Bucket {
  std::vector<Block> blocks;  // in the order of the buffer
  size_t last_slice = 0;      // which makes the bucket complete
};

// Blocks are cut from the start of their slice, so bucket_bytes cannot change which elements share a scale.
std::vector<Bucket> cut_buckets(const std::vector<GradientSlice>& slices, const ExchangeConfig& config) {
  const size_t block = static_cast<size_t>(config.block), full = config.bucket_bytes / sizeof(float);
  std::vector<Bucket> buckets;
  size_t filled = full;  // of the last bucket; full: the next block opens one
  for (size_t i = 0; i < slices.size(); ++i) {
    if (config.kind == ExchangeKind::int8 && slices[i].exact) continue;
    for (size_t at = 0; at < slices[i].count; at += block) {
      if (filled >= full) {
        buckets.emplace_back();
        filled = 0;
      }
      const size_t count = std::min(block, slices[i].count - at);
      buckets.back().blocks.push_back({slices[i].offset + at, count});
      buckets.back().last_slice = i;
      filled += count;
    }
  }
  return buckets;
}

void check(const ExchangeConfig& config, std::span<const float> gradient, const std::vector<GradientSlice>& slices) {
  REQUIRE(config.block > 0, "give a block of some elements (1024)", "the exchange's block is ", config.block);
  REQUIRE(config.bucket_bytes >= sizeof(float), "give a bucket of some megabytes", "the exchange's bucket has ",
          config.bucket_bytes, " bytes");
  size_t end = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    REQUIRE(slices[i].offset == end, "list all slices in the order of the buffer", "gradient slice ", i, " begins at ",
            slices[i].offset, ", the one before ends at ", end);
    end += slices[i].count;
  }
  REQUIRE(end == gradient.size(), "list all slices in the order of the buffer", "gradient slices cover ", end, " of ",
          gradient.size(), " floats");
}

class ThreadedExchange final : public GradientExchange {
 public:
  ThreadedExchange(const ExchangeConfig& config, std::unique_ptr<Transport> transport, std::span<float> gradient,
                   std::vector<GradientSlice> slices, uint64_t seed)
      : transport_(std::move(transport)),
        overlap_(config.overlap),
        gradient_(gradient),
        slices_(std::move(slices)),
        next_slice_(slices_.size()) {
    check(config, gradient, slices_);
    if (transport_->size() == 1) return;
    auto buckets = cut_buckets(slices_, config);
    if (config.kind == ExchangeKind::fp32)
      plan_fp32(buckets);
    else
      plan_int8(buckets, seed, config.error_feedback);
    done_ = tasks_.size();
    thread_ = std::thread(&ThreadedExchange::communicate, this);
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
    REQUIRE(next_slice_ == slices_.size() && done_ == tasks_.size(), "call finish() first", "the exchange of step ",
            step, " begins before the one of step ", step_, " has ended");
    step_ = step;
    next_slice_ = announced_ = done_ = 0;
  }

  void ready(size_t slice) override {
    REQUIRE(slice == next_slice_, "announce slices in the order of the buffer, each once after begin()",
            "gradient slice ", slice, " became ready, slice ", next_slice_, " was next");
    ++next_slice_;
    if (overlap_) announce();
  }

  void finish() override {
    REQUIRE(next_slice_ == slices_.size(), "announce all slices first", "only ", next_slice_, " of ", slices_.size(),
            " gradient slices are ready");
    const Clock::time_point start = Clock::now();
    announce();
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return error_ || done_ == tasks_.size(); });
    wait_seconds_ += seconds_since(start);
    if (error_) std::rethrow_exception(error_);
  }

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
  // What the communication thread does for one bucket. Tasks run in this order on all ranks.
  struct Task {
    size_t last_slice = 0;
    std::function<void(uint32_t step)> run;
  };

  // Hands the tasks whose slices are all ready to the communication thread.
  void announce() {
    size_t complete = announced_;
    while (complete < tasks_.size() && tasks_[complete].last_slice < next_slice_) ++complete;
    if (complete == announced_) return;
    {
      const std::lock_guard lock(mutex_);
      announced_ = complete;
    }
    work_.notify_one();
  }

  void plan_fp32(const std::vector<Bucket>& buckets) {
    for (const Bucket& bucket : buckets) {
      const Block &first = bucket.blocks.front(), &last = bucket.blocks.back();
      const auto values = gradient_.subspan(first.offset, last.offset + last.count - first.offset);
      tasks_.push_back({bucket.last_slice, [this, values](uint32_t) { transport_->all_reduce_sum(values); }});
    }
  }

  void plan_int8(std::vector<Bucket>& buckets, uint64_t seed, bool error_feedback) {
    std::vector<std::vector<Block>> blocks;
    for (size_t i = 0; i < buckets.size(); ++i) {
      blocks.push_back(std::move(buckets[i].blocks));
      tasks_.push_back({buckets[i].last_slice, [this, i](uint32_t step) { quantized_->run(i, step); }});
    }
    quantized_ = std::make_unique<QuantizedAllReduce>(*transport_, gradient_, std::move(blocks), seed, error_feedback);
    size_t exact = 0;
    for (const GradientSlice& slice : slices_) exact += slice.exact ? slice.count : 0;
    if (exact == 0) return;
    coalesced_.resize(exact);
    tasks_.push_back({slices_.size() - 1, [this](uint32_t) { sum_exact_slices(); }});
  }

  void sum_exact_slices() {
    for_exact_slices([](std::span<float> slice, std::span<float> copy) { std::ranges::copy(slice, copy.begin()); });
    transport_->all_reduce_sum(std::span(coalesced_));
    for_exact_slices([](std::span<float> slice, std::span<float> copy) { std::ranges::copy(copy, slice.begin()); });
  }

  template <class Call>
  void for_exact_slices(Call call) {
    size_t at = 0;
    for (const GradientSlice& slice : slices_) {
      if (!slice.exact) continue;
      call(gradient_.subspan(slice.offset, slice.count), std::span(coalesced_).subspan(at, slice.count));
      at += slice.count;
    }
  }

  void communicate() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_.wait(lock, [&] { return stop_ || done_ < announced_; });
      if (stop_) return;
      const Task& task = tasks_[done_];
      const uint32_t step = step_;
      lock.unlock();
      const Clock::time_point start = Clock::now();
      std::exception_ptr error;
      try {
        task.run(step);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      busy_seconds_ += seconds_since(start);
      wire_bytes_ = transport_->wire_bytes();
      error_ = error;
      if (!error_) ++done_;
      if (error_ || done_ == tasks_.size()) idle_.notify_one();
      if (error_) return;
    }
  }

  const std::unique_ptr<Transport> transport_;
  const bool overlap_;
  const std::span<float> gradient_;
  const std::vector<GradientSlice> slices_;
  std::unique_ptr<QuantizedAllReduce> quantized_;
  std::vector<float> coalesced_;  // all exact slices, one after another
  std::vector<Task> tasks_;       // empty with one rank: the sum is there already
  size_t next_slice_;             // of the caller's thread alone

  mutable std::mutex mutex_;  // guards all below; only the caller's thread writes announced_
  std::condition_variable work_, idle_;
  bool stop_ = false;
  uint32_t step_ = 0;
  size_t announced_ = 0, done_ = 0;  // tasks
  std::exception_ptr error_;         // the thread has ended
  int64_t wire_bytes_ = 0;
  double busy_seconds_ = 0, wait_seconds_ = 0;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_exchange(const ExchangeConfig& config, std::unique_ptr<Transport> transport,
                                                std::span<float> gradient, std::vector<GradientSlice> slices,
                                                uint64_t seed) {
  return std::make_unique<ThreadedExchange>(config, std::move(transport), gradient, std::move(slices), seed);
}

}  // namespace octet
