// A convolution that writes codes: one thread for each output, so that its epilogue is plain. It serves networks that
// are deployed, not training.
#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/store.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256;

// An exact sum: int32 holds it, see Requantization.
template <class From>
__device__ int32_t sum_of(const ConvProblem& p, const From* x, const int8_t* w, int64_t i) {
  const int64_t channel = i % p.y.c, column = i / p.y.c % p.y.w, row = i / (p.y.c * p.y.w) % p.y.h;
  const int64_t inputs = p.x.c / p.groups, group = channel / (p.y.c / p.groups);
  const From* const image = x + i / (p.y.c * p.y.w * p.y.h) * p.x.h * p.x.w * p.x.c + group * inputs;
  int32_t sum = 0;
  for (int v = 0; v < p.kernel_h; ++v) {
    const int64_t h = row * p.stride_h - p.pad_h + v * p.dilation_h;
    if (h < 0 || h >= p.x.h) continue;
    for (int u = 0; u < p.kernel_w; ++u) {
      const int64_t at = column * p.stride_w - p.pad_w + u * p.dilation_w;
      if (at < 0 || at >= p.x.w) continue;
      const From* const from = image + (h * p.x.w + at) * p.x.c;
      const int8_t* const weights = w + ((channel * p.kernel_h + v) * p.kernel_w + u) * inputs;
      for (int64_t c = 0; c < inputs; ++c) sum += static_cast<int32_t>(from[c]) * weights[c];
    }
  }
  return sum;
}

__global__ void requantize(const __grid_constant__ ConvProblem p, const void* x, bool is_unsigned, const int8_t* w,
                           const void* residual, DType of_residual, const __grid_constant__ Requantization how, void* y,
                           DType type) {
  const int64_t i = thread_index(), channel = i % p.y.c;
  if (i >= p.y.elements()) return;
  const int32_t sum =
      is_unsigned ? sum_of(p, static_cast<const uint8_t*>(x), w, i) : sum_of(p, static_cast<const int8_t*>(x), w, i);
  double value = static_cast<double>(sum + how.bias[channel]) * how.factor[channel];
  if (residual != nullptr)
    value += static_cast<double>(read_value(residual, of_residual, i)) * how.residual_factor[channel];
  if (type == DType::f32) {
    static_cast<float*>(y)[i] = static_cast<float>(value);
    return;
  }
  value = value > how.lowest ? value : how.lowest;
  value = value < how.highest ? value : how.highest;
  const double magic = 0x1.8p52;  // leaves no bits below the point; ties go to even
  static_cast<int8_t*>(y)[i] = static_cast<int8_t>(static_cast<int>((value + magic) - magic));
}

}  // namespace

void CudaBackend::compute(const ConvRequantizeCall& call) {
  const auto& [problem, x, w, residual, how, y] = call;
  OCTET_LAUNCH_EACH(requantize, y.elements(), threads, stream_, problem, x.data, x.dtype == DType::u8, w.s8(),
                    residual.data, residual.dtype, how, y.data, y.dtype);
}

}  // namespace octet::cuda
