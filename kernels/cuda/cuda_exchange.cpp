// The backend's second stream, and the codec of the gradient exchange on it.
#include <algorithm>
#include <utility>

#include "kernels/cuda/cuda_backend.h"

namespace octet::cuda {
namespace {

class CudaCodec final : public BlockCodec {
 public:
  CudaCodec(const CodecProblem& problem, const CudaBackend& backend, Stream stream)
      : backend_(backend), stream_(stream), values_(problem.values.data()), ranks_(problem.ranks) {
    std::vector<BlockPart> parts;
    const auto add = [&](const std::vector<BlockPart>& more) {
      parts.insert(parts.end(), more.begin(), more.end());
      return std::pair(parts.size() - more.size(), more.size());
    };
    std::vector<std::pair<size_t, size_t>> blocks, owned;
    size_t most_blocks = 0, largest_shard = 0;
    for (const CodecBucket& bucket : problem.buckets) {
      blocks.push_back(add(bucket.blocks));
      owned.push_back(add(bucket.owned));
      most_blocks = std::max(most_blocks, bucket.blocks.size());
      largest_shard = std::max(largest_shard, bucket.shard);
    }
    const auto exact = add(problem.exact);
    if (!problem.exact.empty()) exact_values_ = problem.exact.back().position + problem.exact.back().count;

    BlockPart* const table = zeros<BlockPart>(parts_, parts.size());
    copy_to_device(table, parts.data(), parts.size() * sizeof(BlockPart), stream_);
    const auto slice = [&](std::pair<size_t, size_t> range) { return PartTable{table + range.first, range.second}; };
    exact_parts_ = slice(exact);
    zeros<float>(exact_, exact_values_);
    zeros<float>(absmax_, most_blocks);
    zeros<int8_t>(codes_, largest_shard * static_cast<size_t>(ranks_));
    zeros<int8_t>(received_, largest_shard * static_cast<size_t>(ranks_));
    zeros<int8_t>(summed_, largest_shard);
    for (size_t i = 0; i < problem.buckets.size(); ++i)
      buckets_.push_back({slice(blocks[i]), slice(owned[i]), problem.buckets[i].shard});
  }

  CodecBuffers buffers(size_t index) override {
    const Bucket& bucket = buckets_[index];
    const size_t all = bucket.shard * static_cast<size_t>(ranks_);
    return {{absmax(), bucket.blocks.count}, {codes(), all}, {received(), all}, {summed(), bucket.shard}};
  }
  void measure(size_t index) override { launch_measure_blocks(buckets_[index].blocks, values_, absmax(), stream_); }
  void encode(size_t index, const RngKey& key) override {
    launch_encode_blocks(buckets_[index].blocks, values_, absmax(), backend_.of_step(key), codes(), stream_);
  }
  void reduce(size_t index, const RngKey& key) override {
    const Bucket& bucket = buckets_[index];
    launch_reduce_blocks(bucket.owned, received(), bucket.shard, ranks_, backend_.of_step(key), summed(), stream_);
  }
  void decode(size_t index) override {
    launch_decode_blocks(buckets_[index].blocks, codes(), absmax(), ranks_, values_, stream_);
  }
  std::span<float> exact() override { return {exact_.get<float>(0), exact_values_}; }
  void collect() override { launch_collect_parts(exact_parts_, values_, exact_.get<float>(0), stream_); }
  void distribute() override { launch_distribute_parts(exact_parts_, exact_.get<float>(0), values_, stream_); }

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

class CudaSideStream final : public SideStream {
 public:
  CudaSideStream(const CudaBackend& backend, Stream main)
      : backend_(backend), main_(main), side_(make_stream(main.clock)), mark_(make_event()) {}
  ~CudaSideStream() override {
    destroy_event(mark_);
    destroy_stream(side_);
  }
  CudaSideStream(const CudaSideStream&) = delete;
  CudaSideStream& operator=(const CudaSideStream&) = delete;

  void* handle() override { return side_.handle; }
  void follow() override {
    record(mark_, main_);
    wait_for(mark_, side_);
  }
  void join() override {
    record(mark_, side_);
    wait_for(mark_, main_);
  }
  bool backend_idle() override { return idle(main_); }
  std::unique_ptr<BlockCodec> make_codec(CodecProblem problem) override {
    return std::make_unique<CudaCodec>(problem, backend_, side_);
  }

 private:
  const CudaBackend& backend_;
  const Stream main_, side_;
  const Event mark_;
};

}  // namespace

std::unique_ptr<SideStream> CudaBackend::make_side_stream() { return std::make_unique<CudaSideStream>(*this, stream_); }

}  // namespace octet::cuda
