#include "comm/quantized_all_reduce.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/base/error.h"

namespace octet {
namespace {

constexpr size_t shard_alignment = 64;  // bytes: shards start on cache lines

// Sites of the exchange end in 3 (Role::exchange); ranks take the place of nodes, the sum that of a rank that cannot
// be.
uint32_t site_of_rank(int rank) { return static_cast<uint32_t>(rank) * 8 + 3; }
constexpr uint32_t site_of_sum = 0xFFFFFFFBu;

}  // namespace

QuantizedAllReduce::QuantizedAllReduce(Transport& transport, std::span<float> values,
                                       std::vector<std::vector<Block>> buckets, uint64_t seed, bool error_feedback)
    : transport_(transport), values_(values), seed_(seed), error_feedback_(error_feedback) {
  const size_t ranks = static_cast<size_t>(transport.size()), rank = static_cast<size_t>(transport.rank());
  if (ranks == 1) return;
  size_t largest_shard = 0, largest_block = 0, most_blocks = 0;
  for (auto& blocks : buckets) {
    Bucket bucket;
    bucket.blocks = std::move(blocks);
    size_t total = 0;
    for (const Block& block : bucket.blocks) {
      REQUIRE(block.offset + block.count <= values.size(), "cut blocks from the buffer", "a block ends at ",
              block.offset + block.count, " of ", values.size(), " values");
      total += block.count;
      largest_block = std::max(largest_block, block.count);
    }
    bucket.shard = ((total + ranks - 1) / ranks + shard_alignment - 1) / shard_alignment * shard_alignment;
    const size_t begin = bucket.shard * rank, end = begin + bucket.shard;
    size_t position = 0;
    for (size_t i = 0; i < bucket.blocks.size(); ++i) {
      const Block& block = bucket.blocks[i];
      const size_t from = std::max(position, begin), to = std::min(position + block.count, end);
      if (from < to) bucket.owned.push_back({i, block.offset + (from - position), to - from});
      position += block.count;
    }
    if (error_feedback) bucket.owner_residual.resize(bucket.shard);
    largest_shard = std::max(largest_shard, bucket.shard);
    most_blocks = std::max(most_blocks, bucket.blocks.size());
    buckets_.push_back(std::move(bucket));
  }
  if (error_feedback) worker_residual_.resize(values.size());
  absmax_.resize(most_blocks);
  scales_.resize(most_blocks);
  codes_.resize(largest_shard * ranks);
  received_.resize(largest_shard * ranks);
  summed_.resize(largest_shard);
  sum_.resize(largest_block);
  mean_.resize(largest_block);
}

void QuantizedAllReduce::run(size_t index, uint32_t step) {
  if (transport_.size() == 1) return;
  Bucket& bucket = buckets_.at(index);
  const size_t shard = bucket.shard, all = shard * static_cast<size_t>(transport_.size());
  agree_on_scales(bucket);
  encode(bucket, {.seed = seed_, .step = step, .site = site_of_rank(transport_.rank())});
  transport_.all_to_all(std::as_bytes(std::span(codes_).first(all)),
                        std::as_writable_bytes(std::span(received_).first(all)), shard);
  reduce_shard(bucket, {.seed = seed_, .step = step, .site = site_of_sum});
  transport_.all_gather(std::as_bytes(std::span(summed_).first(shard)),
                        std::as_writable_bytes(std::span(codes_).first(all)));
  decode(bucket);
}

void QuantizedAllReduce::agree_on_scales(const Bucket& bucket) {
  const std::span<float> absmax = std::span(absmax_).first(bucket.blocks.size());
  for (size_t i = 0; i < absmax.size(); ++i) {
    const Block& block = bucket.blocks[i];
    if (error_feedback_) add_residual(worker_residual_.data() + block.offset, 1, values_of(block));
    absmax[i] = block_absmax(values_of(block));
  }
  transport_.all_reduce_max(absmax);
  for (size_t i = 0; i < absmax.size(); ++i) scales_[i] = block_scale(absmax[i]);
}

void QuantizedAllReduce::encode(const Bucket& bucket, const RngKey& key) {
  int8_t* codes = codes_.data();
  for (size_t i = 0; i < bucket.blocks.size(); ++i) {
    const Block& block = bucket.blocks[i];
    encode_block(values_of(block), scales_[i], random_.of(key, block.offset, block.count), codes);
    // A block that overflowed keeps the residual of the step before, as if this step had not been.
    if (error_feedback_ && !std::isnan(scales_[i].step))
      residual_of_block(values_of(block), codes, scales_[i].step, 1, worker_residual_.data() + block.offset);
    codes += block.count;
  }
  std::fill(codes, codes_.data() + bucket.shard * static_cast<size_t>(transport_.size()), int8_t{0});
}

void QuantizedAllReduce::reduce_shard(Bucket& bucket, const RngKey& key) {
  const int ranks = transport_.size();
  size_t position = 0;  // in the shard
  for (const Piece& piece : bucket.owned) {
    const std::span<int32_t> sum = std::span(sum_).first(piece.count);
    std::ranges::fill(sum, 0);
    for (int rank = 0; rank < ranks; ++rank)
      add_codes(received_.data() + static_cast<size_t>(rank) * bucket.shard + position, sum);

    const std::span<float> mean = std::span(mean_).first(piece.count);
    mean_of_codes(sum, ranks, mean.data());  // in units of the block's step times the number of ranks
    const float unit = scales_[piece.block].step * static_cast<float>(ranks);
    float* residual = error_feedback_ && unit > 0 ? bucket.owner_residual.data() + position : nullptr;
    int8_t* codes = summed_.data() + position;
    if (residual) add_residual(residual, 1 / unit, mean);
    encode_block(mean, {1, 1}, random_.of(key, piece.offset, piece.count), codes);
    if (residual) residual_of_block(mean, codes, 1, unit, residual);
    position += piece.count;
  }
  std::fill(summed_.begin() + static_cast<std::ptrdiff_t>(position),
            summed_.begin() + static_cast<std::ptrdiff_t>(bucket.shard), int8_t{0});
}

void QuantizedAllReduce::decode(const Bucket& bucket) {
  const int8_t* codes = codes_.data();
  for (size_t i = 0; i < bucket.blocks.size(); ++i) {
    decode_block(codes, scales_[i].step * static_cast<float>(transport_.size()), values_of(bucket.blocks[i]));
    codes += bucket.blocks[i].count;
  }
}

}  // namespace octet
