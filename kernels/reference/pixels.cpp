// The first layer on images of bytes, see shared/pixels.h.
#include <cmath>
#include <vector>

#include "kernels/reference/backend.h"
#include "kernels/reference/element.h"
#include "kernels/reference/products.h"
#include "kernels/shared/pixel_weights.h"

namespace octet {
namespace {
using namespace reference;

// The problem in the four channels of the images.
ConvProblem of_bytes(ConvProblem problem) {
  problem.x.c = pixel_channels;
  return problem;
}

}  // namespace

void ReferenceBackend::compute(const PixelValuesCall& call) {
  normalize_pixels(call.pixels, call.x.u8(), call.x.shape.pixels(), call.y.f32());
}

void ReferenceBackend::compute(const PixelForwardCall& call) {
  const int64_t channels = call.problem.y.c, taps = call.problem.kernel_h * call.problem.kernel_w;
  std::vector<int32_t> weights(static_cast<size_t>(channels * taps * pixel_channels));
  std::vector<float> factors;
  for (int64_t c = 0; c < channels; ++c)
    factors.push_back(
        round_pixel_weights(call.w.f32() + c * taps * 3, taps, call.pixels, &weights[c * taps * pixel_channels]));
  for (int64_t group = 0; group < call.groups(); ++group) {
    const int64_t images = call.problem.x.n;
    const Tensor x = call.x.images(group * images, images), y = call.y.images(group * images, images);
    std::vector<int64_t> sums(static_cast<size_t>(y.elements()));
    for_each_product(of_bytes(call.problem),
                     [&](int64_t i, int64_t j, int64_t k) { sums[k] += int64_t{weights[j]} * x.u8()[i]; });
    for (int64_t i = 0; i < y.elements(); ++i) {
      sums[i] = (sums[i] + 128) >> 8;
      write(y, i, static_cast<float>(sums[i]) * factors[i % channels]);
    }
    if (!call.moments.empty())
      measure_exactly(
          sums, channels, [&](int64_t c) { return factors[c]; }, call.moments[group]);
  }
}

void ReferenceBackend::compute(const PixelBackwardWeightCall& call) {
  const int64_t channels = call.problem.y.c, taps = call.problem.kernel_h * call.problem.kernel_w;
  std::vector<uint32_t> largest(static_cast<size_t>(channels));
  for (int64_t i = 0; i < call.dy.elements(); ++i)
    largest[i % channels] = std::max(largest[i % channels], bits_of(call.dy.f32()[i]) & 0x7FFFFFFFu);
  std::vector<float> scales;
  for (const uint32_t of_channel : largest) scales.push_back(pixel_gradient_scale(of_channel));
  std::vector<int64_t> codes(static_cast<size_t>(call.dy.elements()));
  for (int64_t i = 0; i < call.dy.elements(); ++i)
    if (const float scale = scales[i % channels]; !std::isnan(scale)) codes[i] = std::lrint(call.dy.f32()[i] * scale);
  std::vector<int64_t> sums(static_cast<size_t>(channels * taps * pixel_channels));
  for_each_product(of_bytes(call.problem),
                   [&](int64_t i, int64_t j, int64_t k) { sums[j] += codes[k] * call.x.u8()[i]; });
  for (int64_t i = 0; i < call.dw.tensor.elements(); ++i)
    write(call.dw, i,
          pixel_gradient(&sums[i / 3 * pixel_channels], call.pixels, static_cast<int>(i % 3), scales[i / 3 / taps]));
}

}  // namespace octet
