// The sum over ranks of a large float buffer with 2 bytes per element on the wire (an fp32 ring takes 8): block absmax
// -> max over ranks -> one scale per block for all ranks -> stochastic int8 -> all-to-all of shards -> exact int32 sum
// -> stochastic rounding of sum / size -> all-gather -> times scale * size. No sum can overflow, and every rank ends
// with the same bits. Two-shot after qgZ of "ZeRO++" (Wang et al., 2023); the shared scale makes the sum exact and free
// of order.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "comm/block_codec.h"
#include "comm/transport.h"

namespace octet {

// Elements of the buffer that share one scale.
struct Block {
  size_t offset = 0, count = 0;
};

class QuantizedAllReduce {
 public:
  // values: the buffer; buckets: what one run() sums, disjoint blocks. Both must be the same on all ranks, and the
  // values and the transport must outlive this. Random bits are a function of seed, step, rank and position in
  // `values`, so the result does not depend on how blocks are put into buckets. Error feedback: what rounding loses is
  // added in the next step, before the first rounding on each rank, before the second on the rank that owns the shard.
  // This state starts at zero and is not part of any checkpoint.
  QuantizedAllReduce(Transport&, std::span<float> values, std::vector<std::vector<Block>> buckets, uint64_t seed,
                     bool error_feedback);

  // Collective: values of the bucket's blocks = the sum over ranks. With one rank, nothing is touched. A block that
  // holds a NaN or an infinity on any rank becomes NaN on all.
  void run(size_t bucket, uint32_t step);

 private:
  // A part of a block in this rank's shard.
  struct Piece {
    size_t block = 0, offset = 0, count = 0;
  };
  struct Bucket {
    std::vector<Block> blocks;
    std::vector<Piece> owned;           // covers the shard without gaps, but for padding at its end
    size_t shard = 0;                   // bytes: codes of all blocks, one after another, in size() equal shards
    std::vector<float> owner_residual;  // (shard)
  };

  void agree_on_scales(const Bucket&);
  void encode(const Bucket&, const RngKey&);
  void reduce_shard(Bucket&, const RngKey&);
  void decode(const Bucket&);
  std::span<float> values_of(const Block& block) const { return values_.subspan(block.offset, block.count); }

  Transport& transport_;
  const std::span<float> values_;
  const uint64_t seed_;
  const bool error_feedback_;
  std::vector<Bucket> buckets_;
  std::vector<float> worker_residual_;  // (values)
  // Scratch for the largest bucket.
  RandomBits random_;
  std::vector<float> absmax_;       // (blocks)
  std::vector<BlockScale> scales_;  // (blocks)
  std::vector<int8_t> codes_;       // (size, shard): this rank's codes, then the sums of all shards
  std::vector<int8_t> received_;    // (size, shard): all ranks' codes of this rank's shard
  std::vector<int8_t> summed_;      // (shard)
  std::vector<int32_t> sum_;        // (block)
  std::vector<float> mean_;         // (block)
};

}  // namespace octet
