// What one rank computes while gradients travel as 8-bit codes (comm/quantized_all_reduce.h): the steps between two
// messages, over all blocks of a bucket at once. The host has one implementation (comm/block_codec.h), a device another
// (kernels/cuda/cuda_exchange.cpp); both give the same bits, but for those of a NaN.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/shared/random.h"

namespace octet {

// A run of values inside one block, whose elements share one scale.
struct BlockPart {
  size_t offset = 0, count = 0;  // in the values
  size_t position = 0;           // of its first code, among those of its list
  size_t block = 0;              // in the bucket
};

// Blocks that travel together: their codes stand one after another, cut into one shard for each rank.
struct CodecBucket {
  std::vector<BlockPart> blocks;  // whole blocks, in order
  std::vector<BlockPart> owned;   // what this rank's shard has of them; positions count from the shard's begin
  size_t shard = 0;               // bytes of each rank's shard; the last codes are followed by bytes without meaning
};

struct CodecProblem {
  std::span<float> values;  // where the codec works
  std::vector<CodecBucket> buckets;
  std::vector<BlockPart> exact;  // travels as it is, in one message
  int ranks = 1;
};

// The memory of a bucket's messages.
struct CodecBuffers {
  std::span<float> absmax;     // (blocks)
  std::span<int8_t> codes;     // (ranks, shard): of this rank's values, then the sums of all shards
  std::span<int8_t> received;  // (ranks, shard): all ranks' codes of this rank's shard
  std::span<int8_t> summed;    // (shard)
};

class BlockCodec {
 public:
  virtual ~BlockCodec() = default;
  // Buckets share this memory: one is done before the next begins.
  virtual CodecBuffers buffers(size_t bucket) = 0;
  // absmax = the largest |value| of each block, infinity when one is not finite.
  virtual void measure(size_t bucket) = 0;
  // codes = stochastic round of value / step, with the block_scale() of absmax, which is now over all ranks.
  virtual void encode(size_t bucket, const RngKey&) = 0;
  // summed = stochastic round of the exact sum of received / ranks: a code in units of step * ranks.
  virtual void reduce(size_t bucket, const RngKey&) = 0;
  // values = codes * step * ranks.
  virtual void decode(size_t bucket) = 0;

  // The exact parts, one after another; collect() fills it from the values, distribute() writes it back.
  virtual std::span<float> exact() = 0;
  virtual void collect() = 0;
  virtual void distribute() = 0;
};

}  // namespace octet
