#include "kernels/cpu/channel_means.h"

#include <algorithm>
#include <span>

#include "kernels/cpu/parallel.h"

namespace octet::cpu {
namespace {

constexpr int64_t channels_at_once = 64;
// Doubles of this size have no fraction, so a sum with it is rounded to an integer, ties to even.
constexpr double magic = 0x1.8p52;

}  // namespace

bool ChannelMeans::fits(const ConvRequantizeCall& call) {
  const ConvProblem& p = call.problem;
  constexpr int64_t most_pixels = 1 << 16;  // sums stay below 2^30, and their products with factors are exact
  return p.groups == p.x.c && p.y.c == p.x.c && p.y.h == 1 && p.y.w == 1 && p.kernel_h == p.x.h &&
         p.kernel_w == p.x.w && p.pad_h == 0 && p.pad_w == 0 && p.dilation_h == 1 && p.dilation_w == 1 &&
         p.x.h * p.x.w <= most_pixels && !call.residual && !is_real(call.y.dtype) &&
         std::ranges::all_of(std::span(call.w.s8(), size_t(call.w.elements())), [](int8_t w) { return w == 1; });
}

ChannelMeans::ChannelMeans(const ConvRequantizeCall& call, Threads threads)
    : problem_(call.problem),
      threads_(threads),
      lowest_(call.how.lowest),
      highest_(call.how.highest),
      bias_(call.how.bias, call.how.bias + call.problem.y.c),
      factor_(call.how.factor, call.how.factor + call.problem.y.c) {}

template <class From, class To>
void ChannelMeans::compute(const From* x, To* y) const {
  const int64_t channels = problem_.x.c, pixels = problem_.x.h * problem_.x.w;
  const int64_t blocks = (channels + channels_at_once - 1) / channels_at_once;
  parallel_for(threads_, problem_.x.n * blocks, [&](int64_t i) {
    const int64_t image = i / blocks, first = i % blocks * channels_at_once;
    const int64_t count = std::min(channels_at_once, channels - first);
    const From* from = x + image * pixels * channels + first;
    int32_t sums[channels_at_once] = {};
    for (int64_t pixel = 0; pixel < pixels; ++pixel, from += channels)
      for (int64_t c = 0; c < count; ++c) sums[c] += from[c];
    To* const to = y + image * channels + first;
    for (int64_t c = 0; c < count; ++c) {
      const double mean = double(int64_t{sums[c]} + bias_[size_t(first + c)]) * factor_[size_t(first + c)];
      to[c] = To(int32_t(std::clamp(mean, double(lowest_), double(highest_)) + magic - magic));
    }
  });
}

void ChannelMeans::run(Tensor x, Tensor /*residual*/, Tensor y) {
  const auto to = [&](auto* of_x) {
    y.dtype == DType::u8 ? compute(of_x, y.as<uint8_t>()) : compute(of_x, y.as<int8_t>());
  };
  x.dtype == DType::u8 ? to(x.as<const uint8_t>()) : to(x.as<const int8_t>());
}

}  // namespace octet::cpu
