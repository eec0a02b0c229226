// The backend's convolutions: codes go to the int8 contraction, real operands to the kind the policy asked for.
#include "kernels/cpu/convolution.h"

#include "kernels/cpu/backend.h"
#include "kernels/cpu/channel_means.h"
#include "kernels/cpu/conv_codes.h"
#include "kernels/cpu/conv_table.h"
#include "kernels/cpu/depthwise_convolution.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/parallel.h"

namespace octet::cpu {

void CpuBackend::compute(const ConvForwardCall& call) { convolution_of(call.x).forward(call); }
void CpuBackend::compute(const ConvRequantizeCall& call) { keep(call)->run(call.x, call.residual, call.y); }
std::unique_ptr<ReadyConvolution> CpuBackend::keep(const ConvRequantizeCall& call) {
  const IsaKernels& row = kernels_of(options_.isa);
  if (row.depthwise_codes && DepthwiseConvolution::fits(call))
    return std::make_unique<DepthwiseConvolution>(*row.depthwise_codes, call, threads_);
  if (ChannelMeans::fits(call)) return std::make_unique<ChannelMeans>(call, threads_);
  return std::make_unique<CodeConvolution>(is_depthwise(call.problem) ? *row.depthwise : *row.codes, call, packed_);
}
void CpuBackend::compute(const ConvBackwardDataCall& call) { convolution_of(call.dy).backward_data(call); }
void CpuBackend::compute(const ConvBackwardWeightCall& call) { convolution_of(call.x).backward_weight(call); }

void CpuBackend::compute(const PixelValuesCall& call) {
  parallel_pieces(threads_, call.x.shape.pixels(), 4096, [&](int64_t first, int64_t count) {
    normalize_pixels(call.pixels, call.x.u8() + first * pixel_channels, count, call.y.f32() + first * 3);
  });
}
void CpuBackend::compute(const PixelForwardCall& call) { codes_->forward(call); }
void CpuBackend::compute(const PixelBackwardWeightCall& call) { codes_->backward_weight(call); }

std::unique_ptr<Convolution> make_int8_convolution(Isa isa, Threads threads) {
  const IsaKernels& row = kernels_of(isa);
  return std::make_unique<TableConvolution>(*row.codes, row.depthwise, threads, row.digits);
}

std::unique_ptr<Convolution> make_fixed_order_convolution(Isa isa, Threads threads) {
  return std::make_unique<TableConvolution>(*kernels_of(isa).real, nullptr, threads);
}

}  // namespace octet::cpu
