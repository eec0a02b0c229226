// The sum over ranks of a large float buffer with 2 bytes per element on the wire (an fp32 ring takes 8): block absmax
// -> max over ranks -> one scale per block for all ranks -> stochastic int8 -> all-to-all of shards -> exact int32 sum
// -> stochastic rounding of sum / size -> all-gather -> times scale * size. No sum can overflow, and every rank gets
// the same bits. The two rounds follow qgZ of "ZeRO++" (Wang et al., 2023). With the shared scale the sum is exact and
// independent of the order.
#pragma once
#include <cstdint>
#include <vector>

#include "comm/transport.h"
#include "kernels/block_codec.h"

namespace octet {

// A range of the buffer whose elements share one scale.
struct Block {
  size_t offset = 0, count = 0;
};

// Concatenates the codes of the blocks and cuts them into `ranks` equal shards. This rank owns one shard.
CodecBucket cut_shards(const std::vector<Block>& blocks, int ranks, int rank);

// Collective: replaces the values of the bucket's blocks by their sum over ranks. A block that holds a NaN or an
// infinity on any rank becomes NaN on all. Codec and collectives must work in the same place: both on the host, or both
// in the order of one stream. Random bits are a function of seed, step, rank and position in the values, so the result
// does not depend on the assignment of blocks to buckets.
void quantized_all_reduce(Collectives&, BlockCodec&, size_t bucket, uint64_t seed, uint32_t step);

}  // namespace octet
