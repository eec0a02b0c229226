// What one rank computes between the messages of the int8 gradient exchange (comm/exchange_tasks.h), for all blocks of
// a bucket at once. The host and CUDA have one implementation each (kernels/cpu/block_codec.cpp,
// kernels/cuda/block_codec.cu). Both give the same bits, except those of a NaN.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/shared/random.h"

namespace octet {

// Consecutive values inside one block. The elements of a block share one scale.
struct BlockPart {
  size_t offset = 0, count = 0;  // of the elements, in the values
  size_t position = 0;           // of the first element's code, among the codes of the list that holds this part
  size_t block = 0;              // index in the bucket
};

// The blocks of one message. Their codes follow each other and are divided into one shard for each rank.
struct CodecBucket {
  std::vector<BlockPart> blocks;  // whole blocks, in order
  std::vector<BlockPart> owned;   // the parts in this rank's shard; positions count from the start of the shard
  size_t shard = 0;               // bytes of each rank's shard; padding follows the last codes
};

struct CodecProblem {
  std::span<float> values;  // in the memory where the codec works
  std::vector<CodecBucket> buckets;
  std::vector<BlockPart> exact;  // values that are sent as fp32, in one message
  int ranks = 1;
};

// The memory of a bucket's messages.
struct CodecBuffers {
  std::span<float> absmax;     // (blocks)
  std::span<int8_t> codes;     // (ranks, shard): codes of this rank's values, later the sums of all shards
  std::span<int8_t> received;  // (ranks, shard): the codes of all ranks for this rank's shard
  std::span<int8_t> summed;    // (shard)
};

class BlockCodec {
 public:
  virtual ~BlockCodec() = default;
  // All buckets use the same memory, one after another.
  virtual CodecBuffers buffers(size_t bucket) = 0;
  // absmax = the largest |value| of each block, or infinity if a value is not finite.
  virtual void measure(size_t bucket) = 0;
  // codes = stochastic rounding of value / step. The step follows from absmax by block_scale(). absmax must by now be
  // the maximum over all ranks.
  virtual void encode(size_t bucket, const RngKey&) = 0;
  // summed = stochastic rounding of (exact sum of received) / ranks: a code in units of step * ranks.
  virtual void reduce(size_t bucket, const RngKey&) = 0;
  // values = codes * step * ranks.
  virtual void decode(size_t bucket) = 0;

  // A copy of the exact parts, one after another. collect() fills the copy from the values, and distribute() writes it
  // back to the values.
  virtual std::span<float> exact() = 0;
  virtual void collect() = 0;
  virtual void distribute() = 0;
};

// The codec of the host works on the caller's thread. The values of the problem must outlive it.
std::unique_ptr<BlockCodec> make_host_codec(CodecProblem);

}  // namespace octet
