// Where sums of floating-point numbers are cut. A sum is taken in f32 within a chunk and in double over chunks, in
// order; chunks follow from shapes alone, so that every backend, instruction set and thread count rounds alike.
#pragma once
#include <algorithm>
#include <numeric>

#include "kernels/backend.h"

namespace octet {

// A 1x1, stride 1, unpadded convolution sees its pixels as one long list: the same problem on (pixels, 1, 1, C) images.
inline ConvProblem as_pixel_list(const ConvProblem& p) {
  if (p.kernel_h != 1 || p.kernel_w != 1 || p.stride_h != 1 || p.stride_w != 1 || p.pad_h != 0 || p.pad_w != 0)
    return p;
  ConvProblem flat = p;
  flat.x = {p.x.pixels(), 1, 1, p.x.c};
  flat.y = {p.y.pixels(), 1, 1, p.y.c};
  return flat;
}

// The rounding error of a sum of real products grows with its length. So the partial sum is folded into a second sum
// after every fold_products products of a run, and at the end of a run if as many were added since. A run of a gather
// is all channels of a row's taps; with groups or dilation, of one tap. A run of the weight gradient is a row of dy; of
// a pixel list, a whole item.
inline constexpr int64_t fold_products = 64;

// Products of codes that an int32 sum always holds exactly: 133,144 of 127 x 127, or 66,311 of 255 x 127, rounded down.
constexpr int64_t products_per_sum(DType x) { return x == DType::u8 ? 65536 : 131072; }

// Images of a work item. Packed, an item leaves room for weights in the first-level cache; it has at least 128 output
// pixels, since each item reads all weights. image_bytes: with halo, as it is read.
inline int64_t item_images(int64_t images, int64_t image_bytes, int64_t pixels) {
  return std::min(images, std::max({int64_t{1}, 20 * 1024 / image_bytes, (128 + pixels - 1) / pixels}));
}

// Moments of a convolution's output: chunks of 64 pixels, then items of this many images, then all items. p is what
// as_pixel_list() gave; element_bytes: 1 for codes, 4 for real operands.
inline constexpr int64_t moment_pixels = 64;
inline int64_t moment_images(const ConvProblem& p, int64_t element_bytes) {
  const auto padded = [](int64_t in, int64_t out, int kernel, int stride, int pad, int dilation) {
    const int64_t beyond = (out - 1) * stride + int64_t{kernel - 1} * dilation - pad + 1 - in;
    return in + pad + std::max<int64_t>(0, beyond);
  };
  const int64_t rows = padded(p.x.h, p.y.h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h);
  const int64_t columns = padded(p.x.w, p.y.w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w);
  return item_images(p.x.n, rows * columns * p.x.c * element_bytes, p.y.h * p.y.w);
}

// The weight gradient of real operands is summed in f32 over the pixels of this many images, then in double. At least
// 512 pixels, since each item reads and writes all sums.
inline int64_t gradient_images(const ConvProblem& p) {
  const int64_t pixels = p.y.h * p.y.w;
  return std::clamp<int64_t>((512 + pixels - 1) / pixels, 1, p.x.n);
}

// affine_backward's sums over flat NHWC elements: f32 for each element index modulo the period within a chunk. With
// a wide period the chunk's quarters are summed together, one element of each in turn, and the remainder last.
inline int64_t affine_period(int64_t channels) { return std::lcm(channels, int64_t{64}); }
inline int64_t affine_chunk(int64_t channels) {
  const int64_t period = affine_period(channels);
  return std::max<int64_t>(1, std::max<int64_t>(16384, 32 * channels) / period) * period;
}
inline constexpr int64_t narrow_period = 128;
[[gnu::always_inline]] OCTET_BOTH int64_t affine_quarter(int64_t count, int64_t period) {
  return period > narrow_period ? count / (4 * period) * period : 0;
}

}  // namespace octet
