// The work of a gradient exchange in its order, wherever it runs: buckets, and what each asks of codec and collectives.
#pragma once
#include <functional>
#include <memory>

#include "comm/exchange.h"
#include "comm/quantized_all_reduce.h"

namespace octet {

using MakeCodec = std::function<std::unique_ptr<BlockCodec>(CodecProblem)>;

class ExchangeTasks {
 public:
  // With one rank there is none: the sum is there already. make_codec is called only for int8.
  ExchangeTasks(const ExchangeConfig&, Collectives&, const MakeCodec&, std::span<float> gradient,
                std::vector<GradientSlice>, uint64_t seed);

  size_t count() const { return tasks_.size(); }
  // Slices of a step, by its one caller. Errors of order throw.
  void begin(uint32_t step);
  void ready(size_t slice);
  void require_all_ready() const;
  uint32_t step() const { return step_; }
  // How many tasks have all of their slices ready; they run in order, each once in a step.
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
