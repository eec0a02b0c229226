#include "comm/quantized_all_reduce.h"

#include <algorithm>

namespace octet {
namespace {

constexpr size_t shard_alignment = 64;  // bytes; shards start on cache lines

// The random streams of the exchange end in 3 (Role::exchange). Ranks take the place of nodes, and the sum has a number
// that no rank has.
uint32_t site_of_rank(int rank) { return static_cast<uint32_t>(rank) * 8 + 3; }
constexpr uint32_t site_of_sum = 0xFFFFFFFBu;

}  // namespace

CodecBucket cut_shards(const std::vector<Block>& blocks, int ranks, int rank) {
  CodecBucket bucket;
  size_t position = 0;
  for (const Block& block : blocks) {
    bucket.blocks.push_back({block.offset, block.count, position, bucket.blocks.size()});
    position += block.count;
  }
  const size_t size = static_cast<size_t>(ranks);
  bucket.shard = ((position + size - 1) / size + shard_alignment - 1) / shard_alignment * shard_alignment;
  const size_t begin = bucket.shard * static_cast<size_t>(rank), end = begin + bucket.shard;
  for (const BlockPart& part : bucket.blocks) {
    const size_t from = std::max(part.position, begin), to = std::min(part.position + part.count, end);
    if (from < to) bucket.owned.push_back({part.offset + (from - part.position), to - from, from - begin, part.block});
  }
  return bucket;
}

void quantized_all_reduce(Collectives& collectives, BlockCodec& codec, size_t bucket, uint64_t seed, uint32_t step) {
  const CodecBuffers at = codec.buffers(bucket);
  codec.measure(bucket);
  collectives.all_reduce_max(at.absmax);
  codec.encode(bucket, {.seed = seed, .step = step, .site = site_of_rank(collectives.rank())});
  collectives.all_to_all(std::as_bytes(at.codes), std::as_writable_bytes(at.received), at.summed.size());
  codec.reduce(bucket, {.seed = seed, .step = step, .site = site_of_sum});
  collectives.all_gather(std::as_bytes(at.summed), std::as_writable_bytes(at.codes));
  codec.decode(bucket);
}

}  // namespace octet
