// The codec whose values lie in the host's memory: the loops of block_codec.h, block after block.
#include <algorithm>
#include <cmath>
#include <utility>

#include "comm/block_codec.h"

namespace octet {
namespace {

class HostCodec final : public BlockCodec {
 public:
  explicit HostCodec(CodecProblem problem) : problem_(std::move(problem)) {
    const size_t ranks = static_cast<size_t>(problem_.ranks);
    size_t blocks = 0, block = 0, shard = 0;
    for (const CodecBucket& bucket : problem_.buckets) {
      blocks = std::max(blocks, bucket.blocks.size());
      for (const BlockPart& part : bucket.blocks) block = std::max(block, part.count);
      shard = std::max(shard, bucket.shard);
      if (problem_.error_feedback) owner_residuals_.emplace_back(bucket.shard);
    }
    if (problem_.error_feedback) worker_residual_.resize(problem_.values.size());
    absmax_.resize(blocks);
    codes_.resize(shard * ranks);
    received_.resize(shard * ranks);
    summed_.resize(shard);
    sum_.resize(block);
    mean_.resize(block);
    if (!problem_.exact.empty()) exact_.resize(problem_.exact.back().position + problem_.exact.back().count);
  }

  void forget() override {
    std::ranges::fill(worker_residual_, 0.0f);
    for (std::vector<float>& residual : owner_residuals_) std::ranges::fill(residual, 0.0f);
  }

  CodecBuffers buffers(size_t index) override {
    const CodecBucket& bucket = problem_.buckets[index];
    const size_t all = bucket.shard * static_cast<size_t>(problem_.ranks);
    return {std::span(absmax_).first(bucket.blocks.size()), std::span(codes_).first(all),
            std::span(received_).first(all), std::span(summed_).first(bucket.shard)};
  }

  void measure(size_t index) override {
    for (const BlockPart& part : problem_.buckets[index].blocks) {
      if (problem_.error_feedback) add_residual(worker_residual_.data() + part.offset, 1, values_of(part));
      absmax_[part.block] = block_absmax(values_of(part));
    }
  }

  void encode(size_t index, const RngKey& key) override {
    for (const BlockPart& part : problem_.buckets[index].blocks) {
      const BlockScale scale = block_scale(absmax_[part.block]);
      int8_t* const codes = codes_.data() + part.position;
      encode_block(values_of(part), scale, random_.of(key, part.offset, part.count), codes);
      if (problem_.error_feedback && !std::isnan(scale.step))
        residual_of_block(values_of(part), codes, scale.step, 1, worker_residual_.data() + part.offset);
    }
  }

  void reduce(size_t index, const RngKey& key) override {
    const CodecBucket& bucket = problem_.buckets[index];
    for (const BlockPart& part : bucket.owned) {
      const std::span<int32_t> sum = std::span(sum_).first(part.count);
      std::ranges::fill(sum, 0);
      for (size_t rank = 0; rank < static_cast<size_t>(problem_.ranks); ++rank)
        add_codes(received_.data() + rank * bucket.shard + part.position, sum);

      const std::span<float> mean = std::span(mean_).first(part.count);
      mean_of_codes(sum, problem_.ranks, mean.data());
      const float unit = unit_of(part);
      float* const residual =
          problem_.error_feedback && unit > 0 ? owner_residuals_[index].data() + part.position : nullptr;
      int8_t* const codes = summed_.data() + part.position;
      if (residual) add_residual(residual, 1 / unit, mean);
      encode_block(mean, {1, 1}, random_.of(key, part.offset, part.count), codes);
      if (residual) residual_of_block(mean, codes, 1, unit, residual);
    }
  }

  void decode(size_t index) override {
    for (const BlockPart& part : problem_.buckets[index].blocks)
      decode_block(codes_.data() + part.position, unit_of(part), values_of(part));
  }

  std::span<float> exact() override { return exact_; }
  void collect() override {
    for (const BlockPart& part : problem_.exact)
      std::ranges::copy(values_of(part), exact_.begin() + static_cast<std::ptrdiff_t>(part.position));
  }
  void distribute() override {
    for (const BlockPart& part : problem_.exact)
      std::ranges::copy(std::span(exact_).subspan(part.position, part.count), values_of(part).begin());
  }

 private:
  std::span<float> values_of(const BlockPart& part) const { return problem_.values.subspan(part.offset, part.count); }
  float unit_of(const BlockPart& part) const {
    return block_scale(absmax_[part.block]).step * static_cast<float>(problem_.ranks);
  }

  const CodecProblem problem_;
  std::vector<std::vector<float>> owner_residuals_;  // by bucket: (shard)
  std::vector<float> worker_residual_;               // (values)
  std::vector<float> exact_;
  // For the largest bucket and block.
  RandomBits random_;
  std::vector<float> absmax_;
  std::vector<int8_t> codes_, received_, summed_;
  std::vector<int32_t> sum_;
  std::vector<float> mean_;
};

}  // namespace

std::unique_ptr<BlockCodec> make_host_codec(CodecProblem problem) {
  return std::make_unique<HostCodec>(std::move(problem));
}

}  // namespace octet
