#include "comm/exchange_tasks.h"

#include <algorithm>
#include <utility>

#include "kernels/base/error.h"
#include "kernels/shared/streams.h"

namespace octet {
namespace {

constexpr size_t shard_alignment = 64;  // bytes: shards start on cache lines

// Elements of the buffer that share one scale.
struct Block {
  size_t offset = 0, count = 0;
};

struct Bucket {
  std::vector<Block> blocks;  // in the order of the buffer
  size_t last_slice = 0;      // makes the bucket complete
};

// Blocks are cut from the start of their slice, so bucket_bytes cannot change which elements share a scale.
std::vector<Bucket> cut_buckets(const std::vector<GradientSlice>& slices, const ExchangeConfig& config,
                                size_t element_bytes = sizeof(float)) {
  const size_t block = static_cast<size_t>(config.block), full = config.bucket_bytes / element_bytes;
  std::vector<Bucket> buckets;
  size_t filled = full;  // elements of the last bucket; when it is full, the next block opens another one
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

// The codes of the blocks, one after another, in `ranks` equal shards. `rank` owns one of them.
CodecBucket cut_shards(const std::vector<Block>& blocks, int ranks, int rank) {
  CodecBucket bucket;
  size_t position = 0;
  for (const Block& block : blocks) {
    bucket.blocks.push_back({block.offset, block.count, position, bucket.blocks.size()});
    position += block.count;
  }
  const size_t size = static_cast<size_t>(ranks);
  bucket.shard = ((position + size - 1) / size + shard_alignment - 1) / shard_alignment * shard_alignment;
  const size_t begin = bucket.shard * static_cast<size_t>(rank), end = begin + bucket.shard;
  for (const BlockPart& part : bucket.blocks) {
    const size_t from = std::max(part.position, begin), to = std::min(part.position + part.count, end);
    if (from < to) bucket.owned.push_back({part.offset + (from - part.position), to - from, from - begin, part.block});
  }
  return bucket;
}

void check(const ExchangeConfig& config, const GradientBuffer& gradient, const std::vector<GradientSlice>& slices) {
  REQUIRE(config.block > 0, "give a block of some elements (1024)", "the exchange's block is ", config.block);
  REQUIRE((config.kind == ExchangeKind::exact) == std::holds_alternative<std::span<int64_t>>(gradient),
          "give integers to the exact exchange, and floats to the others", "the gradient has another type");
  REQUIRE(config.bucket_bytes >= sizeof(float), "give a bucket of some megabytes", "the exchange's bucket has ",
          config.bucket_bytes, " bytes");
  size_t end = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    REQUIRE(slices[i].offset == end, "list all slices in the order of the buffer", "gradient slice ", i, " begins at ",
            slices[i].offset, ", the one before ends at ", end);
    end += slices[i].count;
  }
  const size_t size = std::visit([](const auto& numbers) { return numbers.size(); }, gradient);
  REQUIRE(end == size, "list all slices in the order of the buffer", "gradient slices cover ", end, " of ", size,
          " elements");
}

}  // namespace

ExchangeTasks::ExchangeTasks(const ExchangeConfig& config, Collectives& collectives, const MakeCodec& make_codec,
                             GradientBuffer gradient, std::vector<GradientSlice> slices, uint64_t seed)
    : collectives_(collectives), slices_(std::move(slices)), seed_(seed), next_slice_(slices_.size()) {
  check(config, gradient, slices_);
  streams::require_room(static_cast<uint64_t>(collectives.size()), streams::most_nodes, "ranks");
  if (collectives.size() == 1) return;
  if (config.kind == ExchangeKind::int8)
    sum_buckets_as_codes(config, make_codec, std::get<std::span<float>>(gradient));
  else
    std::visit([&](auto numbers) { sum_buckets(config, numbers); }, gradient);
}

template <class Number>
void ExchangeTasks::sum_buckets(const ExchangeConfig& config, std::span<Number> gradient) {
  for (const Bucket& bucket : cut_buckets(slices_, config, sizeof(Number))) {
    const Block &first = bucket.blocks.front(), &last = bucket.blocks.back();
    const auto values = gradient.subspan(first.offset, last.offset + last.count - first.offset);
    tasks_.push_back({bucket.last_slice, [this, values](uint32_t) { collectives_.all_reduce_sum(values); }});
  }
}

void ExchangeTasks::sum_buckets_as_codes(const ExchangeConfig& config, const MakeCodec& make_codec,
                                         std::span<float> gradient) {
  CodecProblem problem;
  problem.values = gradient;
  problem.ranks = collectives_.size();
  for (const Bucket& bucket : cut_buckets(slices_, config)) {
    tasks_.push_back({bucket.last_slice, [this, i = problem.buckets.size()](uint32_t step) { sum_codes(i, step); }});
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

void ExchangeTasks::sum_codes(size_t bucket, uint32_t step) {
  const CodecBuffers at = codec_->buffers(bucket);
  codec_->measure(bucket);
  collectives_.all_reduce_max(at.absmax);
  codec_->encode(bucket, {.seed = seed_, .step = step, .layer_id = streams::of_rank(collectives_.rank())});
  collectives_.all_to_all(std::as_bytes(at.codes), std::as_writable_bytes(at.received), at.summed.size());
  codec_->reduce(bucket, {.seed = seed_, .step = step, .layer_id = streams::exchange_sum.first});
  collectives_.all_gather(std::as_bytes(at.summed), std::as_writable_bytes(at.codes));
  codec_->decode(bucket);
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
