#include "kernels/cpu/depthwise_convolution.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/parallel.h"

namespace octet::cpu {
namespace {

// Where a channel's constants lie in its block.
int64_t lane_of(int64_t channel) { return channel % 16 / 4 * 16 + channel / 16 * 4 + channel % 4; }

}  // namespace

bool DepthwiseConvolution::fits(const ConvRequantizeCall& call) {
  const ConvProblem& p = call.problem;
  if (p.groups != p.x.c || p.y.c != p.x.c || p.kernel_h != depthwise_taps || p.kernel_w != depthwise_taps ||
      p.dilation_h != 1 || p.dilation_w != 1 || p.stride_h != p.stride_w || p.stride_h > 2 || p.pad_h < 0 ||
      p.pad_w < 0 || call.x.dtype != DType::u8 || call.residual || is_real(call.y.dtype))
    return false;
  // f32 holds each sum and each factor, and its product as an integer in the lower bits of a number near 2^23.
  constexpr double most_sum = 1 << 24, most_code = 1 << 22;
  constexpr int64_t taps = depthwise_taps * depthwise_taps;
  for (int64_t c = 0; c < p.y.c; ++c) {
    double reach = std::abs(double(call.how.bias[c]));
    for (int64_t tap = 0; tap < taps; ++tap) reach += 255 * std::abs(double(call.w.s8()[c * taps + tap]));
    const double factor = call.how.factor[c];
    const bool exact = factor == 0 || (factor >= 0x1p-60 && factor == double(float(factor)));
    if (!exact || reach > most_sum || reach * factor >= most_code) return false;
  }
  return true;
}

DepthwiseConvolution::DepthwiseConvolution(const DepthwiseCodes& kernels, const ConvRequantizeCall& call,
                                           Threads threads)
    : kernels_(kernels),
      problem_(call.problem),
      threads_(threads),
      lowest_(call.how.lowest),
      highest_(call.how.highest),
      zeros_(size_t(call.problem.x.w * call.problem.x.c)) {
  const auto lanes = size_t((problem_.y.c + depthwise_lanes - 1) / depthwise_lanes * depthwise_lanes);
  weights_.resize(lanes * depthwise_taps * 4);
  start_.resize(lanes);
  factor_.resize(lanes);
  for (int64_t c = 0; c < problem_.y.c; ++c) {
    const int64_t block = c / depthwise_lanes, lane = lane_of(c % depthwise_lanes);
    start_[size_t(block * depthwise_lanes + lane)] = call.how.bias[c];
    factor_[size_t(block * depthwise_lanes + lane)] = float(call.how.factor[c]);
    for (int64_t row = 0; row < depthwise_taps; ++row)
      for (int64_t column = 0; column < depthwise_taps; ++column)
        weights_[size_t(((block * depthwise_taps + column) * depthwise_lanes + lane) * 4 + row)] =
            call.w.s8()[(c * depthwise_taps + row) * depthwise_taps + column];
  }
}

void DepthwiseConvolution::run(Tensor x, Tensor /*residual*/, Tensor y) {
  const ConvProblem& p = problem_;
  const auto compute = y.dtype == DType::u8 ? kernels_.unsigned_row : kernels_.signed_row;
  const int64_t x_row = p.x.w * p.x.c, y_row = p.y.w * p.y.c, rows = p.y.n * p.y.h;
  const int64_t at_once = std::max<int64_t>(1, rows / (4 * threads_.count));
  parallel_pieces(threads_, rows, at_once, [&](int64_t first, int64_t count) {
    DepthwiseRow row{{},       p.x.w,           p.y.w,         p.y.c,          p.stride_w,
                     p.pad_w,  weights_.data(), start_.data(), factor_.data(), lowest_,
                     highest_, nullptr};
    for (int64_t i = first; i < first + count; ++i) {
      const int64_t image = i / p.y.h, top = i % p.y.h * p.stride_h - p.pad_h;
      for (int64_t tap = 0; tap < depthwise_taps; ++tap) {
        const int64_t at = top + tap;
        row.x[tap] = at < 0 || at >= p.x.h ? zeros_.data() : x.as<const uint8_t>() + (image * p.x.h + at) * x_row;
      }
      row.y = y.as<uint8_t>() + i * y_row;
      compute(row);
    }
  });
}

}  // namespace octet::cpu
