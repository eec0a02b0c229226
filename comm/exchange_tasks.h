// Divides a gradient exchange into tasks that run in order, on the host or on a device. A task sums one bucket, or all
// exact slices, by calls of the codec and of the collectives.
//
// An int8 bucket sends 2 bytes per element, while a ring all-reduce in fp32 sends 8. Its steps are:
//   1. absmax of each block, and its maximum over all ranks: one scale per block for all ranks
//   2. stochastic rounding to int8, all-to-all of the shards, exact sum in int32
//   3. stochastic rounding of sum / ranks, all-gather, multiplication by scale * ranks
// No sum can overflow, and every rank ends with the same bits. The all-to-all and the all-gather of codes are those of
// qgZ in "ZeRO++" (Wang et al., 2023). The scale that all ranks share makes the sum exact and independent of the order.
// Random bits are a function of seed, step, rank and position in the gradient, so the result does not depend on how the
// gradient is divided into buckets. A block that holds a NaN or an infinity on any rank becomes NaN on all ranks.
#pragma once
#include <functional>
#include <memory>

#include "comm/exchange.h"

namespace octet {

using MakeCodec = std::function<std::unique_ptr<BlockCodec>(CodecProblem)>;

class ExchangeTasks {
 public:
  // With one rank there are no tasks. make_codec is called only for ExchangeKind::int8. Its codec must work where the
  // collectives work: on the host, or on their stream.
  ExchangeTasks(const ExchangeConfig&, Collectives&, const MakeCodec&, GradientBuffer gradient,
                std::vector<GradientSlice>, uint64_t seed);

  size_t count() const { return tasks_.size(); }
  // The slices of a step become ready in order, and one thread announces them. A wrong order is an Error.
  void begin(uint32_t step);
  void ready(size_t slice);
  void require_all_ready() const;
  uint32_t step() const { return step_; }
  // The number of tasks whose slices are all ready. The caller runs the tasks in order, each once in a step.
  size_t complete() const;
  void run(size_t task, uint32_t step) const { tasks_[task].run(step); }

 private:
  struct Task {
    size_t last_slice = 0;
    std::function<void(uint32_t step)> run;
  };
  template <class Number>
  void sum_buckets(const ExchangeConfig&, std::span<Number> gradient);
  void sum_buckets_as_codes(const ExchangeConfig&, const MakeCodec&, std::span<float> gradient);
  void sum_codes(size_t bucket, uint32_t step);

  Collectives& collectives_;
  const std::vector<GradientSlice> slices_;
  const uint64_t seed_;
  std::unique_ptr<BlockCodec> codec_;
  std::vector<Task> tasks_;
  size_t next_slice_;
  uint32_t step_ = 0;
};

}  // namespace octet
