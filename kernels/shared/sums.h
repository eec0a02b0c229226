// How sums of floating-point numbers are split into chunks. A sum is taken in f32 within a chunk, and in double over
// the chunks, in order. Chunks follow from shapes alone, so every backend, instruction set and number of threads gives
// the same bits.
#pragma once
#include <algorithm>
#include <numeric>
#include <string_view>

#include "kernels/backend.h"

namespace octet {

// A 1x1 convolution of stride 1 without padding treats its pixels as one long list, so it is returned as the same
// problem on images of one pixel, (pixels, 1, 1, C). Other convolutions are returned as they are.
inline ConvProblem as_pixel_list(const ConvProblem& p) {
  if (p.kernel_h != 1 || p.kernel_w != 1 || p.stride_h != 1 || p.stride_w != 1 || p.pad_h != 0 || p.pad_w != 0)
    return p;
  ConvProblem flat = p;
  flat.x = {p.x.pixels(), 1, 1, p.x.c};
  flat.y = {p.y.pixels(), 1, 1, p.y.c};
  return flat;
}

// A linear layer on images, (n, h, w, c) to (n, 1, 1, C), is the same layer on pixels of h w c channels. As a
// convolution its data gradient would try each of the kernel's h w taps at each pixel, where only one has a product,
// and its weight gradient would lay the pixels of dy as far apart as those of x. Other problems are returned as
// as_pixel_list() does. Sums of real values over pixels are cut elsewhere, so their weight gradient does not use it.
inline ConvProblem as_linear_layer(const ConvProblem& p) {
  const bool whole = p.y.h == 1 && p.y.w == 1 && p.kernel_h == p.x.h && p.kernel_w == p.x.w && p.pad_h == 0 &&
                     p.pad_w == 0 && p.dilation_h == 1 && p.dilation_w == 1 && p.groups == 1;
  if (!whole) return as_pixel_list(p);
  return {.x = {p.x.n, 1, 1, p.x.h * p.x.w * p.x.c}, .y = p.y};
}

// The rounding error of a sum of real products grows with the number of products. So the partial sum is added to a
// second sum, and starts again at 0, after every fold_products products of a run. This also happens at the end of a run
// if at least fold_products products have been added since the last time. In forward and the data gradient a run
// consists of all channels of a row's taps, or of one tap if there are groups or a dilation. In the weight gradient a
// run is a row of dy, or a whole item if the pixels are a list.
inline constexpr int64_t fold_products = 64;

// The number of products of codes that an int32 sum always holds exactly: 133,144 products of 127 x 127 or 66,311
// products of 255 x 127, rounded down to a power of two.
constexpr int64_t products_per_sum(DType x) { return x == DType::u8 ? 65536 : 131072; }

// The number of images of a work item: as many as fit into 20 KiB, so that weights fit into the first-level cache
// beside them. An item has at least 128 output pixels if there are so many, since each item reads all weights.
// image_bytes: the size of an image with its halo, in the type in which it is read. pixels: output pixels of an image.
inline int64_t item_images(int64_t images, int64_t image_bytes, int64_t pixels) {
  return std::min(images, std::max({int64_t{1}, 20 * 1024 / image_bytes, (128 + pixels - 1) / pixels}));
}

// Moments of a convolution of real values are summed over chunks of 64 pixels, then over the chunks of an item, then
// over all items. moment_images() is the number of images of an item. p: the result of as_pixel_list().
inline constexpr int64_t moment_pixels = 64;
inline int64_t moment_images(const ConvProblem& p) {
  const auto padded = [](int64_t in, int64_t out, int kernel, int stride, int pad, int dilation) {
    const int64_t beyond = (out - 1) * stride + int64_t{kernel - 1} * dilation - pad + 1 - in;
    return in + pad + std::max<int64_t>(0, beyond);
  };
  const int64_t rows = padded(p.x.h, p.y.h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h);
  const int64_t columns = padded(p.x.w, p.y.w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w);
  return item_images(p.x.n, rows * columns * p.x.c * int64_t{sizeof(float)}, p.y.h * p.y.w);
}

// The weight gradient of real operands is summed in f32 over the pixels of this number of images, then in double. The
// images have at least 512 pixels together if there are so many, since each item reads and writes all sums.
inline int64_t gradient_images(const ConvProblem& p) {
  const int64_t pixels = p.y.h * p.y.w;
  return std::clamp<int64_t>((512 + pixels - 1) / pixels, 1, p.x.n);
}

// Elementwise passes run over flat NHWC elements, whose coefficients repeat after the period. With a period above
// narrow_period, memory is read in order, else the elements of a coefficient one after another.
inline int64_t affine_period(int64_t channels) { return std::lcm(channels, int64_t{64}); }
inline constexpr int64_t narrow_period = 128;

// The sums of affine_backward over the pixels of a channel. A chunk is 64 pixels, with zeros behind the last one. In
// f32, pixels 0, 8, 16 ... 56 are added in this order, as are pixels 1, 9 ... 57, and so on: eight sums, of which those
// 4 apart are added, then those 2 apart, then the last two. Chunks are added in double: 64 at a time, then their sums.
inline constexpr int64_t norm_pixels = 64, norm_sums = 8, norm_chunks = 64;
inline int64_t norm_chunks_of(int64_t pixels) { return (pixels + norm_pixels - 1) / norm_pixels; }
inline int64_t norm_groups_of(int64_t pixels) { return (norm_chunks_of(pixels) + norm_chunks - 1) / norm_chunks; }

// A weight gradient of codes adds the products of at least one image in int32. Call this check when a network is
// declared: the kernels call it too, but they first run in the middle of a step. A 1x1 convolution of stride 1 without
// padding has no limit.
inline void check_weight_gradient(const ConvProblem& problem, DType x, std::string_view layer = "a convolution") {
  const ConvProblem p = as_pixel_list(problem);
  REQUIRE_USAGE(is_real(x) || p.y.h * p.y.w <= products_per_sum(x), "train on smaller images",
                "the weight gradient of ", layer, " with a ", p.y.h, "x", p.y.w, " output needs int32 sums of ",
                p.y.h * p.y.w, " products; ", products_per_sum(x), " fit");
}

}  // namespace octet
