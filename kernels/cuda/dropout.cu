// Dropout. What is dropped follows from the key and the global element alone.
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/store.h"
#include "kernels/cuda/walk.h"

namespace octet::cuda {
namespace {

// Bits below `dropped` drop their element.
__global__ void __launch_bounds__(walk_threads)
    dropout_forward(const void* x, DType type, const float* x_scale, int64_t count, float dropped, float growth,
                    const __grid_constant__ StepKey step_key, void* y, float* y_scale) {
  if (y_scale != nullptr && blockIdx.x == 0 && threadIdx.x == 0) *y_scale = *x_scale * growth;
  const RngKey key = step_key.now();
  const Walk walk(count, key.first);
  const Random128 random = walk.random(key);
  walk(
      false, 1, [](auto, int64_t) { return 0; },
      [&](auto, int64_t i, int j, int, int) {
        const bool keep = static_cast<float>(Walk::bits(random, j)) >= dropped;
        if (!is_real(type))
          static_cast<int8_t*>(y)[i] = keep ? static_cast<const int8_t*>(x)[i] : int8_t{0};
        else
          write_real(y, type == DType::bf16, false, i, keep ? read_value(x, type, i) * growth : 0.0f);
      });
}

__global__ void __launch_bounds__(walk_threads)
    dropout_backward(const void* dy, DType type, int64_t count, float dropped, float growth,
                     const __grid_constant__ StepKey step_key, void* dx, bool bf16, bool add) {
  const RngKey key = step_key.now();
  const Walk walk(count, key.first);
  const Random128 random = walk.random(key);
  walk(
      false, 1, [](auto, int64_t) { return 0; },
      [&](auto, int64_t i, int j, int, int) {
        const bool keep = static_cast<float>(Walk::bits(random, j)) >= dropped;
        write_real(dx, bf16, add, i, keep ? read_value(dy, type, i) * growth : 0.0f);
      });
}

}  // namespace

void launch_dropout_forward(const void* x, DType type, const float* x_scale, int64_t count, float rate,
                            const StepKey& key, void* y, float* y_scale, Stream stream) {
  OCTET_LAUNCH(dropout_forward, walk_grid(1, count), dim3(walk_threads), stream, x, type, x_scale, count,
               rate * 65536.0f, 1 / (1 - rate), key, y, y_scale);
}

void launch_dropout_backward(const void* dy, DType type, int64_t count, float rate, const StepKey& key, void* dx,
                             bool bf16, bool add, Stream stream) {
  OCTET_LAUNCH(dropout_backward, walk_grid(1, count), dim3(walk_threads), stream, dy, type, count, rate * 65536.0f,
               1 / (1 - rate), key, dx, bf16, add);
}

}  // namespace octet::cuda
