#include "comm/exchange_tasks.h"

#include <algorithm>
#include <utility>

#include "kernels/base/error.h"

namespace octet {
namespace {

struct Bucket {
  std::vector<Block> blocks;  // in the order of the buffer
  size_t last_slice = 0;      // the slice that completes the bucket
};

// Blocks begin at the start of their slice, so bucket_bytes does not change which elements share a scale.
std::vector<Bucket> cut_buckets(const std::vector<GradientSlice>& slices, const ExchangeConfig& config) {
  const size_t block = static_cast<size_t>(config.block), full = config.bucket_bytes / sizeof(float);
  std::vector<Bucket> buckets;
  size_t filled = full;  // bytes in the last bucket; if full, the next block begins a new one
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
  REQUIRE(config.block > 0, "set the block to a positive number of elements, such as 1024", "the exchange's block is ",
          config.block);
  REQUIRE(config.bucket_bytes >= sizeof(float), "set the bucket to a few megabytes", "the exchange's bucket has ",
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

}  // namespace

ExchangeTasks::ExchangeTasks(const ExchangeConfig& config, Collectives& collectives, const MakeCodec& make_codec,
                             std::span<float> gradient, std::vector<GradientSlice> slices, uint64_t seed)
    : collectives_(collectives), gradient_(gradient), slices_(std::move(slices)), next_slice_(slices_.size()) {
  check(config, gradient, slices_);
  if (collectives.size() == 1) return;
  if (config.kind == ExchangeKind::fp32)
    sum_buckets(config);
  else
    sum_buckets_as_codes(config, make_codec, seed);
}

void ExchangeTasks::sum_buckets(const ExchangeConfig& config) {
  for (const Bucket& bucket : cut_buckets(slices_, config)) {
    const Block &first = bucket.blocks.front(), &last = bucket.blocks.back();
    const auto values = gradient_.subspan(first.offset, last.offset + last.count - first.offset);
    tasks_.push_back({bucket.last_slice, [this, values](uint32_t) { collectives_.all_reduce_sum(values); }});
  }
}

void ExchangeTasks::sum_buckets_as_codes(const ExchangeConfig& config, const MakeCodec& make_codec, uint64_t seed) {
  CodecProblem problem;
  problem.values = gradient_;
  problem.ranks = collectives_.size();
  for (const Bucket& bucket : cut_buckets(slices_, config)) {
    tasks_.push_back({bucket.last_slice, [this, i = problem.buckets.size(), seed](uint32_t step) {
                        quantized_all_reduce(collectives_, *codec_, i, seed, step);
                      }});
    problem.buckets.push_back(cut_shards(bucket.blocks, collectives_.size(), collectives_.rank()));
  }
  size_t position = 0;
  for (const GradientSlice& slice : slices_) {
    if (!slice.exact) continue;
    problem.exact.push_back({slice.offset, slice.count, position, 0});
    position += slice.count;
  }
  codec_ = make_codec(std::move(problem));
  if (position == 0) return;
  tasks_.push_back({slices_.size() - 1, [this](uint32_t) {
                      codec_->collect();
                      collectives_.all_reduce_sum(codec_->exact());
                      codec_->distribute();
                    }});
}

void ExchangeTasks::begin(uint32_t step) {
  REQUIRE(next_slice_ == slices_.size(), "call finish() first", "the exchange of step ", step,
          " begins before the one of step ", step_, " has ended");
  step_ = step;
  next_slice_ = 0;
}

void ExchangeTasks::ready(size_t slice) {
  REQUIRE(slice == next_slice_, "announce slices in the order of the buffer, each once after begin()",
          "gradient slice ", slice, " became ready, slice ", next_slice_, " was next");
  ++next_slice_;
}

void ExchangeTasks::require_all_ready() const {
  REQUIRE(next_slice_ == slices_.size(), "announce all slices first", "only ", next_slice_, " of ", slices_.size(),
          " gradient slices are ready");
}

size_t ExchangeTasks::complete() const {
  const auto first_open =
      std::ranges::find_if(tasks_, [&](const Task& task) { return task.last_slice >= next_slice_; });
  return static_cast<size_t>(first_open - tasks_.begin());
}

}  // namespace octet
