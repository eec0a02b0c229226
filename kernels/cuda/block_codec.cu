// The codec of the gradient exchange: each step is one launch for all blocks of a bucket, with a thread block for each.
// Subnormal numbers are kept, as on the host.
#include <algorithm>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/walk.h"
#include "kernels/shared/block_scale.h"

namespace octet::cuda {
namespace {

constexpr int threads = 64;

// visit(element of the part)
template <class Visit>
__device__ __forceinline__ void for_elements(const BlockPart& part, const Visit& visit) {
  for (size_t i = threadIdx.x; i < part.count; i += threads) visit(i);
}

// visit(element of the part, its random bits): a thread takes the elements that one counter serves, as in Walk.
template <class Visit>
__device__ __forceinline__ void for_random_elements(const BlockPart& part, const RngKey& key, const Visit& visit) {
  const unsigned lane = threadIdx.x % group_threads;
  const uint64_t begin = part.offset, end = begin + part.count;
  for (uint64_t group = begin / group_elements + threadIdx.x / group_threads; group * group_elements < end;
       group += threads / group_threads) {
    const Random128 random = random_of_group(key, group, lane);
#pragma unroll
    for (int j = 0; j < RandomGroup::per_counter; ++j) {
      const uint64_t element = group * group_elements + element_of_group(static_cast<unsigned>(j), lane);
      if (element >= begin && element < end) visit(static_cast<size_t>(element - begin), random_bits_of(random, j));
    }
  }
}

__global__ void __launch_bounds__(threads) measure_blocks(const BlockPart* parts, const float* values, float* absmax) {
  const BlockPart part = parts[blockIdx.x];
  uint32_t largest = 0;
  for_elements(part, [&](size_t i) {
    const uint32_t bits = bits_of(values[part.offset + i]) & 0x7FFFFFFFu;
    largest = bits > largest ? bits : largest;
  });
  largest = largest_of_block<threads>(largest);
  if (threadIdx.x == 0) absmax[part.block] = largest_of_bits(largest);
}

__global__ void __launch_bounds__(threads)
    encode_blocks(const BlockPart* parts, const float* values, const float* absmax,
                  const __grid_constant__ StepKey step_key, int8_t* codes) {
  const RngKey key = step_key.now();
  const BlockPart part = parts[blockIdx.x];
  const BlockScale scale = block_scale(absmax[part.block]);
  for_random_elements(part, key, [&](size_t i, uint32_t random) {
    codes[part.position + i] = encode_stochastic(values[part.offset + i], scale.inverse, block_qmax, random);
  });
}

__global__ void __launch_bounds__(threads)
    reduce_blocks(const BlockPart* parts, const int8_t* received, size_t shard, int ranks,
                  const __grid_constant__ StepKey step_key, int8_t* summed) {
  const RngKey key = step_key.now();
  const BlockPart part = parts[blockIdx.x];
  for_random_elements(part, key, [&](size_t i, uint32_t random) {
    const size_t at = part.position + i;
    int32_t sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += received[static_cast<size_t>(rank) * shard + at];
    summed[at] = encode_stochastic(static_cast<float>(sum) / static_cast<float>(ranks), 1, block_qmax, random);
  });
}

__global__ void __launch_bounds__(threads)
    decode_blocks(const BlockPart* parts, const int8_t* codes, const float* absmax, int ranks, float* values) {
  const BlockPart part = parts[blockIdx.x];
  const float unit = block_scale(absmax[part.block]).step * static_cast<float>(ranks);
  for_elements(part, [&](size_t i) { values[part.offset + i] = static_cast<float>(codes[part.position + i]) * unit; });
}

__global__ void __launch_bounds__(threads) collect_parts(const BlockPart* parts, const float* values, float* exact) {
  const BlockPart part = parts[blockIdx.x];
  for_elements(part, [&](size_t i) { exact[part.position + i] = values[part.offset + i]; });
}

__global__ void __launch_bounds__(threads) distribute_parts(const BlockPart* parts, const float* exact, float* values) {
  const BlockPart part = parts[blockIdx.x];
  for_elements(part, [&](size_t i) { values[part.offset + i] = exact[part.position + i]; });
}

// Parts in the device's memory.
struct PartTable {
  const BlockPart* parts = nullptr;
  size_t count = 0;
  dim3 grid() const { return dim3(static_cast<unsigned>(count)); }
};

class CudaCodec final : public BlockCodec {
 public:
  CudaCodec(const CodecProblem& problem, const CudaBackend& backend, Stream stream)
      : backend_(backend), stream_(stream), values_(problem.values.data()), ranks_(problem.ranks) {
    std::vector<BlockPart> parts;
    size_t most_blocks = 0, largest_shard = 0;
    const auto add = [&](const std::vector<BlockPart>& more) {
      parts.insert(parts.end(), more.begin(), more.end());
      return PartTable{nullptr, more.size()};
    };
    for (const CodecBucket& bucket : problem.buckets) {
      const PartTable blocks = add(bucket.blocks), owned = add(bucket.owned);
      buckets_.push_back({blocks, owned, bucket.shard});
      most_blocks = std::max(most_blocks, bucket.blocks.size());
      largest_shard = std::max(largest_shard, bucket.shard);
    }
    exact_parts_ = add(problem.exact);
    if (!problem.exact.empty()) exact_values_ = problem.exact.back().position + problem.exact.back().count;

    const BlockPart* next = zeros<BlockPart>(parts_, parts.size());
    copy_to_device(parts_.get<BlockPart>(0), parts.data(), parts.size() * sizeof(BlockPart), stream_);
    const auto place = [&](PartTable& table) {
      table.parts = next;
      next += table.count;
    };
    for (Bucket& bucket : buckets_) place(bucket.blocks), place(bucket.owned);
    place(exact_parts_);
    zeros<float>(exact_, exact_values_);
    zeros<float>(absmax_, most_blocks);
    zeros<int8_t>(codes_, largest_shard * static_cast<size_t>(ranks_));
    zeros<int8_t>(received_, largest_shard * static_cast<size_t>(ranks_));
    zeros<int8_t>(summed_, largest_shard);
  }

  CodecBuffers buffers(size_t index) override {
    const Bucket& bucket = buckets_[index];
    const size_t all = bucket.shard * static_cast<size_t>(ranks_);
    return {{absmax(), bucket.blocks.count}, {codes(), all}, {received(), all}, {summed(), bucket.shard}};
  }
  void measure(size_t index) override {
    const PartTable& own = buckets_[index].blocks;
    OCTET_LAUNCH(measure_blocks, own.grid(), dim3(threads), stream_, own.parts, values_, absmax());
  }
  void encode(size_t index, const RngKey& key) override {
    const PartTable& own = buckets_[index].blocks;
    OCTET_LAUNCH(encode_blocks, own.grid(), dim3(threads), stream_, own.parts, values_, absmax(), backend_.of_step(key),
                 codes());
  }
  void reduce(size_t index, const RngKey& key) override {
    const PartTable& own = buckets_[index].owned;
    if (own.count == 0) return;  // the shard is nothing but padding
    OCTET_LAUNCH(reduce_blocks, own.grid(), dim3(threads), stream_, own.parts, received(), buckets_[index].shard,
                 ranks_, backend_.of_step(key), summed());
  }
  void decode(size_t index) override {
    const PartTable& own = buckets_[index].blocks;
    OCTET_LAUNCH(decode_blocks, own.grid(), dim3(threads), stream_, own.parts, codes(), absmax(), ranks_, values_);
  }
  std::span<float> exact() override { return {exact_.get<float>(0), exact_values_}; }
  void collect() override {
    OCTET_LAUNCH(collect_parts, exact_parts_.grid(), dim3(threads), stream_, exact_parts_.parts, values_,
                 exact_.get<float>(0));
  }
  void distribute() override {
    OCTET_LAUNCH(distribute_parts, exact_parts_.grid(), dim3(threads), stream_, exact_parts_.parts,
                 exact_.get<float>(0), values_);
  }

 private:
  struct Bucket {
    PartTable blocks, owned;
    size_t shard = 0;
  };

  template <class T>
  T* zeros(DeviceScratch& memory, size_t count) {
    T* const at = memory.get<T>(static_cast<int64_t>(count));
    if (count > 0) fill_zero(at, count * sizeof(T), stream_);
    return at;
  }
  float* absmax() { return absmax_.get<float>(0); }
  int8_t* codes() { return codes_.get<int8_t>(0); }
  int8_t* received() { return received_.get<int8_t>(0); }
  int8_t* summed() { return summed_.get<int8_t>(0); }

  const CudaBackend& backend_;
  const Stream stream_;
  float* const values_;
  const int ranks_;
  size_t exact_values_ = 0;
  std::vector<Bucket> buckets_;
  PartTable exact_parts_;
  DeviceScratch parts_, exact_, absmax_, codes_, received_, summed_;
};

}  // namespace

std::unique_ptr<BlockCodec> make_codec(const CodecProblem& problem, const CudaBackend& backend, Stream stream) {
  return std::make_unique<CudaCodec>(problem, backend, stream);
}

}  // namespace octet::cuda
