// The host's codec of the gradient exchange, on the caller's thread.
#include "kernels/block_codec.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/block_loops.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/scratch.h"
#include "kernels/shared/block_scale.h"

namespace octet {
namespace cpu {
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
    for (const BlockPart& part : problem_.buckets[index].blocks)
      absmax_[part.block] = largest_of_bits(loops_.largest_bits(values_of(part), part.count));
  }

  void encode(size_t index, const RngKey& key) override {
    for (const BlockPart& part : problem_.buckets[index].blocks)
      loops_.encode(values_of(part), part.count, block_scale(absmax_[part.block]).inverse, random_of(key, part),
                    codes_.data() + part.position);
  }

  void reduce(size_t index, const RngKey& key) override {
    const CodecBucket& bucket = problem_.buckets[index];
    for (const BlockPart& part : bucket.owned) {
      std::fill_n(sum_.begin(), part.count, 0);
      for (size_t rank = 0; rank < static_cast<size_t>(problem_.ranks); ++rank)
        loops_.add(received_.data() + rank * bucket.shard + part.position, part.count, sum_.data());
      loops_.divide(sum_.data(), part.count, static_cast<float>(problem_.ranks), mean_.data());
      loops_.encode(mean_.data(), part.count, 1, random_of(key, part), summed_.data() + part.position);
    }
  }

  void decode(size_t index) override {
    for (const BlockPart& part : problem_.buckets[index].blocks)
      loops_.decode(codes_.data() + part.position, part.count,
                    block_scale(absmax_[part.block]).step * static_cast<float>(problem_.ranks), values_of(part));
  }

  std::span<float> exact() override { return exact_; }
  void collect() override {
    for (const BlockPart& part : problem_.exact)
      std::copy_n(values_of(part), part.count, exact_.data() + part.position);
  }
  void distribute() override {
    for (const BlockPart& part : problem_.exact)
      std::copy_n(exact_.data() + part.position, part.count, values_of(part));
  }

 private:
  float* values_of(const BlockPart& part) const { return problem_.values.data() + part.offset; }
  // 16 bits for each element of the part, as random_bits16() gives them. They are valid until the next call.
  const uint16_t* random_of(const RngKey& key, const BlockPart& part) {
    constexpr uint64_t group = RandomGroup::elements;
    const uint64_t begin = key.first + part.offset, from = begin / group, to = (begin + part.count + group - 1) / group;
    uint16_t* const bits = random_.get<uint16_t>((to - from) * group);
    loops_.random_bits(key, from, static_cast<int64_t>(to - from), bits);
    return bits + begin % group;
  }

  const CodecProblem problem_;
  const BlockLoops& loops_ = *row_of(best_isa()).blocks;
  std::vector<float> exact_;
  // As large as the largest bucket and block need.
  Scratch random_;
  std::vector<float> absmax_;
  std::vector<int8_t> codes_, received_, summed_;
  std::vector<int32_t> sum_;
  std::vector<float> mean_;
};

}  // namespace
}  // namespace cpu

std::unique_ptr<BlockCodec> make_host_codec(CodecProblem problem) {
  return std::make_unique<cpu::HostCodec>(std::move(problem));
}

}  // namespace octet
