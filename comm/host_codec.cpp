// The codec for values in host memory. It runs the loops of block_codec.h block by block.
#include <algorithm>
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
    }
    absmax_.resize(blocks);
    codes_.resize(shard * ranks);
    received_.resize(shard * ranks);
    summed_.resize(shard);
    sum_.resize(block);
    mean_.resize(block);
    if (!problem_.exact.empty()) exact_.resize(problem_.exact.back().position + problem_.exact.back().count);
  }

  CodecBuffers buffers(size_t index) override {
    const CodecBucket& bucket = problem_.buckets[index];
    const size_t all = bucket.shard * static_cast<size_t>(problem_.ranks);
    return {std::span(absmax_).first(bucket.blocks.size()), std::span(codes_).first(all),
            std::span(received_).first(all), std::span(summed_).first(bucket.shard)};
  }

  void measure(size_t index) override {
    for (const BlockPart& part : problem_.buckets[index].blocks) absmax_[part.block] = block_absmax(values_of(part));
  }

  void encode(size_t index, const RngKey& key) override {
    for (const BlockPart& part : problem_.buckets[index].blocks)
      encode_block(values_of(part), block_scale(absmax_[part.block]), random_.of(key, part.offset, part.count),
                   codes_.data() + part.position);
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
      encode_block(mean, {1, 1}, random_.of(key, part.offset, part.count), summed_.data() + part.position);
    }
  }

  void decode(size_t index) override {
    for (const BlockPart& part : problem_.buckets[index].blocks) {
      const float unit = block_scale(absmax_[part.block]).step * static_cast<float>(problem_.ranks);
      decode_block(codes_.data() + part.position, unit, values_of(part));
    }
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

  const CodecProblem problem_;
  std::vector<float> exact_;
  // Buffers for the largest bucket and block.
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
