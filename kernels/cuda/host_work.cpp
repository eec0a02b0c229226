// Work of the host in the order of the stream.
#include <algorithm>

#include "kernels/cuda/backend.h"

namespace octet::cuda {
namespace {

constexpr size_t alignment = 64;
size_t room_for(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace

std::byte* PinnedScratch::get(size_t bytes, Stream stream) {
  if (bytes > bytes_) {
    synchronize(stream);
    release_pinned(memory_);
    memory_ = nullptr;
    bytes_ = 0;
    memory_ = allocate_pinned(bytes);
    bytes_ = bytes;
  }
  return static_cast<std::byte*>(memory_);
}

// All calls share one piece of pinned memory, since they follow each other in the stream. It begins with the state.
void CudaBackend::on_host(std::span<const Tensor> reads, std::span<const Tensor> writes, const HostWork& work) {
  size_t bytes = room_for(sizeof(StepState));
  for (const auto& tensors : {reads, writes})
    for (const Tensor& tensor : tensors) bytes += room_for(tensor.bytes());
  std::byte* next = host_tensors_.get(bytes, stream_);
  auto call = std::make_unique<HostCall>(HostCall{
      work, {reads.begin(), reads.end()}, {writes.begin(), writes.end()}, reinterpret_cast<const StepState*>(next)});
  next += room_for(sizeof(StepState));
  for (Tensor& tensor : call->reads) tensor.data = std::exchange(next, next + room_for(tensor.bytes()));
  for (size_t i = 0; i < writes.size(); ++i) {
    const auto same =
        std::find_if(reads.begin(), reads.end(), [&](const Tensor& t) { return t.data == writes[i].data; });
    call->writes[i].data = same != reads.end() ? call->reads[static_cast<size_t>(same - reads.begin())].data
                                               : std::exchange(next, next + room_for(writes[i].bytes()));
  }

  for (size_t i = 0; i < reads.size(); ++i)
    copy_to_pinned(call->reads[i].data, reads[i].data, reads[i].bytes(), stream_);
  if (recording_ != nullptr) {
    copy_to_pinned(const_cast<StepState*>(call->now), state_.data<StepState>(), sizeof(StepState), stream_);
    const auto run = [](void* argument) {
      const HostCall& own = *static_cast<const HostCall*>(argument);
      own.work(own.reads, own.writes, *own.now);
    };
    call_host(run, call.get(), stream_);
  } else {
    synchronize();
    work(call->reads, call->writes, now_);
  }
  for (size_t i = 0; i < writes.size(); ++i)
    copy_from_pinned(writes[i].data, call->writes[i].data, writes[i].bytes(), stream_);
  if (recording_ != nullptr)
    recording_->host_calls.push_back(std::move(call));
  else
    synchronize();  // the pinned memory is then free for the next call
}

}  // namespace octet::cuda
