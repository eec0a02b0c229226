#include "kernels/cuda/geometry.h"

#include <limits>

#include "kernels/shared/sums.h"

namespace octet::cuda {
namespace {

int to_int(int64_t value) {
  REQUIRE_USAGE(value <= std::numeric_limits<int>::max(), "use a smaller batch per GPU",
                "a convolution's tensor has more than 2^31 elements");
  return static_cast<int>(value);
}

Axis axis(int64_t from, int64_t to, int kernel) {
  REQUIRE_USAGE(kernel <= max_taps, say("use kernels of at most ", max_taps, "x", max_taps, ", or backend.device: cpu"),
                "a convolution kernel of extent ", kernel, " on CUDA");
  Axis axis{};
  axis.from = to_int(from);
  axis.to = to_int(to);
  axis.step = 1;
  return axis;
}
void add_tap(Axis& axis, int shift, int kernel) {
  axis.shift[axis.taps] = static_cast<int16_t>(shift);
  axis.kernel[axis.taps++] = static_cast<int16_t>(kernel);
}

Axis forward_axis(int64_t in, int64_t out, int kernel, int stride, int pad, int dilation) {
  Axis result = axis(in, out, kernel);
  result.from_step = stride;
  result.count = result.to;
  for (int k = 0; k < kernel; ++k) add_tap(result, k * dilation - pad, k);
  return result;
}
// Input position r + i * stride is reached by kernel position k from output i + (r + pad - k * dilation) / stride.
std::vector<Axis> backward_axes(int64_t in, int64_t out, int kernel, int stride, int pad, int dilation) {
  std::vector<Axis> phases;
  for (int r = 0; r < stride && r < in; ++r) {
    Axis phase = axis(out, in, kernel);
    phase.from_step = 1;
    phase.first = r;
    phase.step = stride;
    phase.count = to_int((in - r + stride - 1) / stride);
    for (int k = kernel - 1; k >= 0; --k) {
      const int distance = r + pad - k * dilation;
      if (distance % stride == 0) add_tap(phase, distance / stride, k);
    }
    phases.push_back(phase);
  }
  return phases;
}

Gather gather(const ConvProblem& p, const Axis& h, const Axis& w, Shape from, Shape to, int64_t item_images) {
  to_int(from.elements());
  to_int(to.elements());
  Gather g{};
  g.h = h;
  g.w = w;
  g.images = to_int(to.n);
  g.from_channels = to_int(from.c);
  g.to_channels = to_int(to.c);
  g.group_from = to_int(from.c / p.groups);
  g.group_to = to_int(to.c / p.groups);
  g.kernel_w = p.kernel_w;
  g.tap_step = to_int(p.x.c / p.groups);
  g.weight_group = to_int(p.weight().elements() / p.groups);
  const int64_t image_pixels = int64_t{h.count} * w.count;
  g.pixels = to_int(to.n * image_pixels);
  g.item_pixels = to_int(std::min(item_images, to.n) * image_pixels);
  g.chunks_per_item = Divisor(to_int((g.item_pixels + moment_pixels - 1) / moment_pixels));
  g.image_pixels = Divisor(to_int(image_pixels));
  g.row_pixels = Divisor(w.count);
  const int whole = g.pixels / g.item_pixels, rest = g.pixels % g.item_pixels;
  g.chunks = whole * g.chunks_per_item.value + to_int((rest + moment_pixels - 1) / moment_pixels);
  return g;
}

}  // namespace

Divisor::Divisor(int by) : value(by) {
  int bits = 0;
  while (int64_t{1} << bits < by) ++bits;
  shift = 31 + bits;
  multiplier =
      static_cast<uint32_t>(((uint64_t{1} << shift) + static_cast<uint64_t>(by) - 1) / static_cast<uint64_t>(by));
}

Gather forward_gather(const ConvProblem& problem, bool items) {
  const ConvProblem p = as_pixel_list(problem);
  Gather g = gather(p, forward_axis(p.x.h, p.y.h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h),
                    forward_axis(p.x.w, p.y.w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w), p.x, p.y,
                    items ? moment_images(p) : p.x.n);
  g.lane_step = to_int(p.weight().elements() / p.y.c);
  g.channel_step = 1;
  return g;
}

std::vector<Gather> backward_gathers(const ConvProblem& problem) {
  const ConvProblem p = as_linear_layer(problem);
  std::vector<Gather> phases;
  for (const Axis& h : backward_axes(p.x.h, p.y.h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h))
    for (const Axis& w : backward_axes(p.x.w, p.y.w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w)) {
      phases.push_back(gather(p, h, w, p.y, p.x, p.x.n));
      phases.back().lane_step = 1;
      phases.back().channel_step = to_int(p.weight().elements() / p.y.c);
    }
  return phases;
}

WeightGather weight_gather(const ConvProblem& problem) {
  const ConvProblem p = as_pixel_list(problem);
  to_int(p.x.elements());
  to_int(p.y.elements());
  WeightGather g{};
  g.images = to_int(p.x.n);
  g.x_h = to_int(p.x.h), g.x_w = to_int(p.x.w), g.x_channels = to_int(p.x.c);
  g.y_h = to_int(p.y.h), g.y_w = to_int(p.y.w), g.y_channels = to_int(p.y.c);
  g.kernel_h = p.kernel_h, g.kernel_w = p.kernel_w;
  g.stride_h = p.stride_h, g.stride_w = p.stride_w;
  g.pad_h = p.pad_h, g.pad_w = p.pad_w;
  g.dilation_h = p.dilation_h, g.dilation_w = p.dilation_w;
  g.group_x = to_int(p.x.c / p.groups), g.group_y = to_int(p.y.c / p.groups);
  g.item_images = to_int(gradient_images(p));
  g.items = (g.images + g.item_images - 1) / g.item_images;
  return g;
}

bool taps_stay_inside(const Gather& g) {
  const auto inside = [](const Axis& axis) {
    for (int tap = 0; tap < axis.taps; ++tap)
      if (axis.shift[tap] < 0 || (axis.count - 1) * axis.from_step + axis.shift[tap] >= axis.from) return false;
    return true;
  };
  return inside(g.h) && inside(g.w);
}

Shape padded_shape(const ConvProblem& p) {
  const auto extent = [](int64_t in, int64_t out, int kernel, int stride, int pad, int dilation) {
    return std::max(in + pad, (out - 1) * stride + int64_t{kernel - 1} * dilation + 1);
  };
  return {p.x.n, extent(p.x.h, p.y.h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h),
          extent(p.x.w, p.y.w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w), p.x.c};
}

void read_padded(const ConvProblem& problem, Gather& g) {
  const ConvProblem p = as_pixel_list(problem);
  const Shape shape = padded_shape(p);
  const auto pad = [](Axis& axis, int64_t extent, int by) {
    axis.from = to_int(extent);
    for (int tap = 0; tap < axis.taps; ++tap) axis.shift[tap] = static_cast<int16_t>(axis.shift[tap] + by);
  };
  to_int(shape.elements());
  pad(g.h, shape.h, p.pad_h);
  pad(g.w, shape.w, p.pad_w);
}

void read_padded(const ConvProblem& problem, WeightGather& g) {
  const ConvProblem p = as_pixel_list(problem);
  const Shape shape = padded_shape(p);
  to_int(shape.elements());
  g.x_h = to_int(shape.h), g.x_w = to_int(shape.w);
  g.pad_h = g.pad_w = 0;
}

}  // namespace octet::cuda
