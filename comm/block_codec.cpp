#include "comm/block_codec.h"

#include <algorithm>
#include <utility>

// Each loop is compiled for several instruction sets, and the loader picks one. ThreadSanitizer cannot instrument that.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define OCTET_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define OCTET_CLONES
#endif

namespace octet {
namespace {

constexpr size_t group = 256;  // elements whose random bits are made together, see random_bits16()

OCTET_CLONES void random_group(uint64_t seed, uint32_t step, uint32_t layer_id, uint64_t index,
                               uint16_t* __restrict bits) {
  for (int lane = 0; lane < 16; ++lane) {
    const Random128 random = philox(index * 16 + static_cast<uint64_t>(lane), step, layer_id, seed);
    for (int word = 0; word < 4; ++word) {
      const uint32_t first = random.word[word], second = (first >> 8) | (first << 24);
      uint16_t* const to = bits + 64 * word + 2 * lane;
      to[0] = static_cast<uint16_t>(first);
      to[1] = static_cast<uint16_t>(first >> 16);
      to[32] = static_cast<uint16_t>(second);
      to[33] = static_cast<uint16_t>(second >> 16);
    }
  }
}

OCTET_CLONES uint32_t largest_bits(const float* __restrict x, size_t count) {
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = bits_of(x[i]) & 0x7FFFFFFFu;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

OCTET_CLONES void encode(const float* __restrict x, size_t count, float inverse, const uint16_t* __restrict random,
                         int8_t* __restrict codes) {
  for (size_t i = 0; i < count; ++i) codes[i] = encode_stochastic(x[i], inverse, block_qmax, random[i]);
}

OCTET_CLONES void decode(const int8_t* __restrict codes, size_t count, float step, float* __restrict x) {
  for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>(codes[i]) * step;
}

// sum[i] += codes[i], exactly.
OCTET_CLONES void add(const int8_t* __restrict codes, size_t count, int32_t* __restrict sum) {
  for (size_t i = 0; i < count; ++i) sum[i] += codes[i];
}

// mean[i] = sum[i] / ranks, a real number in -127..127. The summed gradient is mean[i] * step * ranks.
OCTET_CLONES void divide(const int32_t* __restrict sum, size_t count, float ranks, float* __restrict mean) {
  for (size_t i = 0; i < count; ++i) mean[i] = static_cast<float>(sum[i]) / ranks;
}

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
      absmax_[part.block] = block_absmax(values_of(part), part.count);
  }

  void encode(size_t index, const RngKey& key) override {
    for (const BlockPart& part : problem_.buckets[index].blocks)
      encode_block(values_of(part), part.count, block_scale(absmax_[part.block]),
                   random_.of(key, part.offset, part.count), codes_.data() + part.position);
  }

  void reduce(size_t index, const RngKey& key) override {
    const CodecBucket& bucket = problem_.buckets[index];
    for (const BlockPart& part : bucket.owned) {
      std::fill_n(sum_.begin(), part.count, 0);
      for (size_t rank = 0; rank < static_cast<size_t>(problem_.ranks); ++rank)
        add(received_.data() + rank * bucket.shard + part.position, part.count, sum_.data());
      divide(sum_.data(), part.count, static_cast<float>(problem_.ranks), mean_.data());
      encode_block(mean_.data(), part.count, {1, 1}, random_.of(key, part.offset, part.count),
                   summed_.data() + part.position);
    }
  }

  void decode(size_t index) override {
    for (const BlockPart& part : problem_.buckets[index].blocks)
      decode_block(codes_.data() + part.position, part.count,
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

  const CodecProblem problem_;
  std::vector<float> exact_;
  // As large as the largest bucket and block need.
  RandomBits random_;
  std::vector<float> absmax_;
  std::vector<int8_t> codes_, received_, summed_;
  std::vector<int32_t> sum_;
  std::vector<float> mean_;
};

}  // namespace

float block_absmax(const float* x, size_t count) { return largest_of_bits(largest_bits(x, count)); }

const uint16_t* RandomBits::of(const RngKey& key, uint64_t first, size_t count) {
  const uint64_t begin = key.first + first, from = begin / group, to = (begin + count + group - 1) / group;
  if (bits_.size() < (to - from) * group) bits_.resize((to - from) * group);
  for (uint64_t index = from; index < to; ++index)
    random_group(key.seed, key.step, key.layer_id, index, bits_.data() + (index - from) * group);
  return bits_.data() + begin % group;
}

void encode_block(const float* x, size_t count, BlockScale scale, const uint16_t* random, int8_t* codes) {
  encode(x, count, scale.inverse, random, codes);
}
void decode_block(const int8_t* codes, size_t count, float step, float* x) { decode(codes, count, step, x); }

std::unique_ptr<BlockCodec> make_host_codec(CodecProblem problem) {
  return std::make_unique<HostCodec>(std::move(problem));
}

}  // namespace octet
