// The tasks of a gradient exchange, in order, for host and device. A task is one bucket: its calls of codec and
// collectives.
#pragma once
#include <functional>
#include <memory>

#include "comm/exchange.h"
#include "comm/quantized_all_reduce.h"

namespace octet {

using MakeCodec = std::function<std::unique_ptr<BlockCodec>(CodecProblem)>;

class ExchangeTasks {
 public:
  // With one rank there are no tasks, since the gradient is the sum. make_codec: called only for int8.
  ExchangeTasks(const ExchangeConfig&, Collectives&, const MakeCodec&, std::span<float> gradient,
                std::vector<GradientSlice>, uint64_t seed);

  size_t count() const { return tasks_.size(); }
  // Count the ready slices of a step. Called from one thread. Error: a call is out of order.
  void begin(uint32_t step);
  void ready(size_t slice);
  void require_all_ready() const;
  uint32_t step() const { return step_; }
  // The number of tasks whose slices are all ready. Tasks run in order, each once per step.
  size_t complete() const;
  void run(size_t task, uint32_t step) const { tasks_[task].run(step); }

 private:
  struct Task {
    size_t last_slice = 0;
    std::function<void(uint32_t step)> run;
  };
  void sum_buckets(const ExchangeConfig&);
  void sum_buckets_as_codes(const ExchangeConfig&, const MakeCodec&, uint64_t seed);

  Collectives& collectives_;
  const std::span<float> gradient_;
  const std::vector<GradientSlice> slices_;
  std::unique_ptr<BlockCodec> codec_;
  std::vector<Task> tasks_;
  size_t next_slice_;
  uint32_t step_ = 0;
};

}  // namespace octet
