// Dropout. The key and the global element alone decide what is dropped.
#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/store.h"
#include "kernels/cuda/walk.h"

namespace octet::cuda {
namespace {

// to = x * growth, or 0 where an element's bits are below `dropped`. Codes are kept as they are and their scale grows.
__global__ void __launch_bounds__(walk_threads)
    dropout(const __grid_constant__ QTensor from, float dropped, float growth, const __grid_constant__ StepKey step_key,
            const __grid_constant__ RealOutput to, float* to_scale) {
  const Tensor& x = from.values;
  if (to_scale != nullptr && blockIdx.x == 0 && threadIdx.x == 0) *to_scale = *from.scale * growth;
  const RngKey key = step_key.now();
  const Walk walk(x.shape.elements(), key.first);
  const Random128 random = walk.random(key);
  walk(
      false, 1, [](auto, int64_t) { return 0; },
      [&](auto, int64_t i, int j, int, int) {
        const bool keep = static_cast<float>(random_bits_of(random, j)) >= dropped;
        if (!is_real(x.dtype))
          static_cast<int8_t*>(to.data)[i] = keep ? static_cast<const int8_t*>(x.data)[i] : int8_t{0};
        else
          write_real(to, i, keep ? read_value(x.data, x.dtype, i) * growth : 0.0f);
      });
}

void launch_dropout(QTensor x, float rate, const StepKey& key, const RealOutput& to, float* to_scale, Stream stream) {
  OCTET_LAUNCH(dropout, walk_grid(x.values.elements()), dim3(walk_threads), stream, x, rate * 65536.0f, 1 / (1 - rate),
               key, to, to_scale);
}

}  // namespace

void CudaBackend::compute(const DropoutForwardCall& call) {
  const auto& [x, rate, key, y] = call;
  launch_dropout(x, rate, of_step(key), {y.values.data, y.values.dtype == DType::bf16}, y.scale, stream_);
}

void CudaBackend::compute(const DropoutBackwardCall& call) {
  const auto& [dy, rate, key, dx] = call;
  launch_dropout({dy}, rate, of_step(key), real_output(dx), nullptr, stream_);
}

}  // namespace octet::cuda
