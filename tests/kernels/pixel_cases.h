// First layers on images of bytes, which every backend is compared on.
#pragma once
#include <string>
#include <vector>

#include "tests/kernels/cases.h"

namespace octet::test {

inline constexpr PixelScale photograph_pixels{{1 / (255 * 0.229f), 1 / (255 * 0.224f), 1 / (255 * 0.225f)},
                                              {-0.485f / 0.229f, -0.456f / 0.224f, -0.406f / 0.225f}};

// Random pixels, of which one in eight does not exist.
inline OwnedTensor random_pixels(Shape x, uint32_t seed) {
  OwnedTensor pixels({x.n, x.h, x.w, pixel_channels}, DType::u8);
  for (int64_t i = 0; i < x.pixels(); ++i) {
    const Random128 random = philox(static_cast<uint64_t>(i), 2, seed, 0x0C7E7);
    if (random.word[3] % 8 == 0) continue;
    for (int c = 0; c < 3; ++c) pixels.view().u8()[i * pixel_channels + c] = static_cast<uint8_t>(random.word[c]);
    pixels.view().u8()[i * pixel_channels + 3] = 255;
  }
  return pixels;
}

// The operands of a first layer.
struct PixelOperands {
  OwnedTensor x, w, dy;
  explicit PixelOperands(const ConvProblem& p)
      : x(random_pixels(p.x, 1)), w(random_real(p.weight(), 2)), dy(random_real(p.y, 3, 1e-3f)) {}
};

inline ConvProblem first_layer(int64_t images, int64_t height, int64_t width, int64_t out, int kernel, int stride,
                               int pad, int dilation = 1) {
  ConvProblem p;
  p.x = {images, height, width, 3};
  p.y = {images, output_extent(height, kernel, stride, pad, dilation),
         output_extent(width, kernel, stride, pad, dilation), out};
  p.kernel_h = p.kernel_w = kernel, p.stride_h = p.stride_w = stride, p.pad_h = p.pad_w = pad;
  p.dilation_h = p.dilation_w = dilation;
  return p;
}
inline std::vector<ConvProblem> first_layers() {
  std::vector<ConvProblem> all{
      first_layer(3, 32, 32, 16, 3, 1, 1), first_layer(2, 30, 45, 64, 7, 2, 3), first_layer(2, 35, 35, 24, 11, 4, 2),
      first_layer(2, 17, 9, 5, 3, 2, 1),   first_layer(1, 5, 7, 33, 1, 1, 0),   first_layer(2, 12, 12, 20, 3, 1, 2, 2),
      first_layer(1, 4, 4, 3, 4, 4, 0),    first_layer(7, 3, 3, 17, 3, 1, 1),   first_layer(1, 3, 4200, 2, 3, 2, 1)};
  ConvProblem same = first_layer(2, 16, 16, 8, 3, 2, 1);  // TensorFlow's padding: one zero more behind the image
  const Padded padded = same_padding(16, 3, 2);
  same.y.h = same.y.w = padded.out, same.pad_h = same.pad_w = padded.pad;
  all.push_back(same);
  return all;
}
inline std::string name_of(const ConvProblem& p) {
  return say(p.x.n, "x", p.x.h, "x", p.x.w, " to ", p.y.c, ", kernel ", p.kernel_h, ", stride ", p.stride_h);
}

}  // namespace octet::test
