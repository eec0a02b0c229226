// The sum over ranks of a large float buffer with 2 bytes per element on the wire (an fp32 ring takes 8): block absmax
// -> max over ranks -> one scale per block for all ranks -> stochastic int8 -> all-to-all of shards -> exact int32 sum
// -> stochastic rounding of sum / size -> all-gather -> times scale * size. No sum can overflow, and every rank ends
// with the same bits. Two-shot after qgZ of "ZeRO++" (Wang et al., 2023); the shared scale makes the sum exact and free
// of order.
#pragma once
#include <cstdint>
#include <vector>

#include "comm/transport.h"
#include "kernels/block_codec.h"

namespace octet {

// Elements of the buffer that share one scale.
struct Block {
  size_t offset = 0, count = 0;
};

// The codes of the blocks, one after another, in `ranks` equal shards, of which this rank owns one.
CodecBucket cut_shards(const std::vector<Block>& blocks, int ranks, int rank);

// Collective: values of the bucket's blocks = the sum over ranks. A block that holds a NaN or an infinity on any rank
// becomes NaN on all. The codec works where the collectives do: both on the host, or both in the order of one stream.
// Random bits are a function of seed, step, rank and position in the values, so the result does not depend on how
// blocks are put into buckets.
void quantized_all_reduce(Collectives&, BlockCodec&, size_t bucket, uint64_t seed, uint32_t step);

}  // namespace octet
