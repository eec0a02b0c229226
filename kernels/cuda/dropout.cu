// Dropout. The key and the global element alone decide what is dropped.
#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/store.h"
#include "kernels/cuda/walk.h"
#include "kernels/shared/checks.h"

namespace octet::cuda {
namespace {

// to = x * growth, or 0 where an element's bits are below `dropped`. Codes are kept as they are and their scale grows.
__global__ void __launch_bounds__(walk_threads)
    dropout(const void* x, DType type, int64_t count, float dropped, float growth,
            const __grid_constant__ StepKey step_key, const __grid_constant__ RealOutput to, const float* scale,
            float* to_scale) {
  if (to_scale != nullptr && blockIdx.x == 0 && threadIdx.x == 0) *to_scale = *scale * growth;
  const RngKey key = step_key.now();
  const Walk walk(count, key.first);
  const Random128 random = walk.random(key);
  walk(
      false, 1, [](auto, int64_t) { return 0; },
      [&](auto, int64_t i, int j, int, int) {
        const bool keep = static_cast<float>(random_bits_of(random, j)) >= dropped;
        if (!is_real(type))
          static_cast<int8_t*>(to.data)[i] = keep ? static_cast<const int8_t*>(x)[i] : int8_t{0};
        else
          write_real(to, i, keep ? read_value(x, type, i) * growth : 0.0f);
      });
}

void launch_dropout(QTensor x, float rate, const StepKey& key, const RealOutput& to, float* to_scale, Stream stream) {
  const int64_t count = x.values.elements();
  OCTET_LAUNCH(dropout, walk_grid(count), dim3(walk_threads), stream, x.values.data, x.values.dtype, count,
               rate * 65536.0f, 1 / (1 - rate), key, to, x.scale, to_scale);
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
