// Real-valued convolutions by a library. What the library cannot do, such as moments, is done around it.
#include "kernels/cuda/backend.h"
#include "kernels/cuda/convolution.h"

namespace octet::cuda {
namespace {

// Parameters and gradients are slices at any multiple of 4 bytes; a library needs multiples of 16.
bool aligned(Tensor tensor) { return reinterpret_cast<uintptr_t>(tensor.data) % 16 == 0; }

}  // namespace

bool CudaBackend::by_library(ConvPass pass, const ConvProblem& p, Tensor x, Tensor w, Tensor y, bool add,
                             std::span<const Moments> moments) {
  if (library_ == nullptr) return false;
  const Tensor to = pass == ConvPass::forward ? y : pass == ConvPass::backward_data ? x : w;
  // A result goes through scratch memory if it is bf16 or not aligned, or if the library cannot add to it.
  const bool direct = to.dtype == DType::f32 && aligned(to) && (!add || library_->takes(pass, p, true));
  if (!library_->takes(pass, p, direct && add)) return false;
  const auto placed = [&](Tensor tensor, DeviceScratch& room) {
    if (tensor.data == to.data ? direct : aligned(tensor)) return tensor.f32();
    float* const copy = room.get<float>(tensor.elements());
    if (tensor.data != to.data) launch_copy_real(tensor.f32(), tensor.elements(), {copy}, stream_);
    return copy;
  };
  float *const x_data = placed(x, from_), *const w_data = placed(w, weights_), *const y_data = placed(y, partial_);
  library_->run(pass, p, direct && add, x_data, w_data, y_data);
  if (!moments.empty()) {
    const Gather g = forward_gather(p, true);
    float* const chunks = chunk_moments_.get<float>(moment_floats(g));
    launch_chunk_moments(g, y_data, chunks, stream_);
    launch_combine_moments(g, chunks, items_.get<double>(4 * item_count(g) * p.y.c), moments[0], stream_);
  }
  if (!direct) {
    const float* const result = pass == ConvPass::forward ? y_data : pass == ConvPass::backward_data ? x_data : w_data;
    launch_copy_real(result, to.elements(), {to.data, to.dtype == DType::bf16, add}, stream_);
  }
  return true;
}

}  // namespace octet::cuda
