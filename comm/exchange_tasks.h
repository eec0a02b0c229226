// The work of a gradient exchange in its order, on the host or on a device: buckets, and the calls of codec and
// collectives for each.
//
// An int8 bucket takes 2 bytes per element on the wire, where an fp32 ring takes 8: absmax of each block -> maximum
// over ranks -> one scale per block for all ranks -> stochastic int8 -> all-to-all of shards -> exact int32 sum ->
// stochastic rounding of sum / size -> all-gather -> times scale * size. No sum can overflow, and every rank ends with
// the same bits. The two steps are those of qgZ in "ZeRO++" (Wang et al., 2023); the shared scale makes the sum exact
// and independent of order. Random bits are a function of seed, step, rank and position in the gradient, so the result
// does not depend on the buckets. A block that holds a NaN or an infinity on any rank becomes NaN on all.
#pragma once
#include <functional>
#include <memory>

#include "comm/exchange.h"

namespace octet {

using MakeCodec = std::function<std::unique_ptr<BlockCodec>(CodecProblem)>;

class ExchangeTasks {
 public:
  // One rank has no tasks. make_codec is called only for int8; the codec works on the host if the collectives do, else
  // on the same stream.
  ExchangeTasks(const ExchangeConfig&, Collectives&, const MakeCodec&, std::span<float> gradient,
                std::vector<GradientSlice>, uint64_t seed);

  size_t count() const { return tasks_.size(); }
  // The slices of a step become ready in order, and one thread announces them. A wrong order is an Error.
  void begin(uint32_t step);
  void ready(size_t slice);
  void require_all_ready() const;
  uint32_t step() const { return step_; }
  // The number of tasks whose slices are all ready. Tasks run in order, each once in a step.
  size_t complete() const;
  void run(size_t task, uint32_t step) const { tasks_[task].run(step); }

 private:
  struct Task {
    size_t last_slice = 0;
    std::function<void(uint32_t step)> run;
  };
  void sum_buckets(const ExchangeConfig&);
  void sum_buckets_as_codes(const ExchangeConfig&, const MakeCodec&);
  void sum_codes(size_t bucket, uint32_t step);

  Collectives& collectives_;
  const std::span<float> gradient_;
  const std::vector<GradientSlice> slices_;
  const uint64_t seed_;
  std::unique_ptr<BlockCodec> codec_;
  std::vector<Task> tasks_;
  size_t next_slice_;
  uint32_t step_ = 0;
};

}  // namespace octet
