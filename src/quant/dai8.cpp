// Distribution Adaptive INT8 Quantization (Zhao et al., AAAI 2021), simulated: q(x) = round(127 clamp(x, -s, s) / s),
// times s / 127.
//   weight, activation  s = max |x|, rounded to nearest
//   grad_output         rounded twice: with one s for the data gradient, and with one s for each output channel for the
//                       weight gradient ("gradient vectorized quantization"). If the values are bell-shaped,
//                       P(|g| > deviation) > 0.3, s = max |g|. Else ("inverted T") s = (1 - k A) s' + A max |g|, s' of
//                       the step before, k = 1, A = 0.8 ("magnitude-aware clipping")
// This follows summaries of the paper, since its authors published no code. Assumptions, where the summaries say
// nothing: gradients are rounded stochastically, the data gradient's s follows the same rule, and s of the first step
// is max |g|.
#include <omp.h>

#include <numeric>
#include <vector>

#include "kernels/host_moments.h"
#include "src/quant/simulated.h"

namespace octet {
namespace {
using namespace simulated;

constexpr double bell_share = 0.3;
constexpr float k = 1, rate = 0.8f;  // k and A

// Largest magnitude and standard deviation, of one channel or of the tensor.
struct Spread {
  float largest, deviation;
};

std::vector<Spread> spreads_of(Tensor gradient, Shape shape) {
  const auto channels = size_t(shape.c);
  std::vector<float> mean(channels), variance(channels), low(channels), high(channels);
  measure_host_moments(omp_get_max_threads(), gradient.f32(), shape,
                       {mean.data(), variance.data(), low.data(), high.data()});
  std::vector<Spread> spreads(channels);
  for (size_t c = 0; c < channels; ++c) spreads[c] = {std::max(high[c], -low[c]), std::sqrt(variance[c])};
  return spreads;
}

// For each channel, the number of values whose magnitude exceeds the channel's deviation.
std::vector<int64_t> count_beyond(Tensor gradient, const std::vector<Spread>& spreads) {
  const int64_t channels = gradient.shape.c;
  std::vector<int64_t> beyond(spreads.size());
  for_runs(gradient.shape.pixels(), 256, [&, values = gradient.f32()](int64_t begin, int64_t end) {
    std::vector<int32_t> own(spreads.size());
    for (int64_t p = begin; p < end; ++p)
      for (int64_t c = 0; c < channels; ++c)
        own[size_t(c)] += std::abs(values[p * channels + c]) > spreads[size_t(c)].deviation;
#pragma omp critical
    for (size_t c = 0; c < own.size(); ++c) beyond[c] += own[c];
  });
  return beyond;
}

float clip_of(float largest, int64_t beyond, int64_t elements, float before) {
  const bool bell = double(beyond) > bell_share * double(elements);
  return bell || before == 0 ? largest : (1 - k * rate) * before + rate * largest;
}

// Rounds each channel stochastically, within its own clip.
void round_in(const std::vector<float>& clips, Tensor gradient, const RngKey& key) {
  std::vector<float> inverses, steps;  // repeated by channel, so that a run can start at any channel
  for (size_t i = 0; i < size_t(run_length) + clips.size(); ++i) {
    inverses.push_back(inverse_scale_of(clips[i % clips.size()], 127));
    steps.push_back(scale_of(clips[i % clips.size()], 127));
  }
  for_runs(gradient.elements(), run_length,
           [=, values = gradient.f32(), inverses = inverses.data(), steps = steps.data(), channels = gradient.shape.c](
               int64_t begin, int64_t end) {
             const float *const inverse = inverses + begin % channels, *const step = steps + begin % channels;
             each_random(values, begin, end, key, [=](float& g, int64_t i, float u) {
               g = floor_of(clamp(g * inverse[i - begin], -127, 127) + u) * step[i - begin];
             });
           });
}

class DistributionAdaptive final : public SimulatedPolicy {
 public:
  explicit DistributionAdaptive(const Config::Policy& config)
      : SimulatedPolicy({.name = "dai8"}, {.splits_grad_output = true}, config) {
    require_bits(8, 8, 8);
  }

  void round(Role, Tensor values, const RngKey&) const override {
    const float largest = absmax(values), inverse = inverse_scale_of(largest, 127), step = scale_of(largest, 127);
    for_each(values, [=](float& x, int64_t) { x = nearest_integer(x * inverse) * step; });
  }

  // The clips of the channels, then the clip of the tensor.
  int64_t carried_clips(int64_t channels) const override { return channels + 1; }
  void round_gradient(Role role, Tensor gradient, const RngKey& key, const float* before, float* now) const override {
    const int64_t channels = gradient.shape.c, pixels = gradient.shape.pixels();
    std::vector<Spread> spreads =
        role == Role::grad_output_for_weight
            ? spreads_of(gradient, gradient.shape)
            : std::vector(size_t(channels), spreads_of(gradient, {1, 1, gradient.elements(), 1}).front());
    const std::vector<int64_t> beyond = count_beyond(gradient, spreads);
    std::vector<float> clips(spreads.size());
    if (role == Role::grad_output_for_weight) {
      for (size_t c = 0; c < clips.size(); ++c)
        clips[c] = now[c] = clip_of(spreads[c].largest, beyond[c], pixels, before[c]);
    } else {
      const int64_t all = std::accumulate(beyond.begin(), beyond.end(), int64_t{0});
      now[channels] = clip_of(spreads.front().largest, all, gradient.elements(), before[channels]);
      std::fill(clips.begin(), clips.end(), now[channels]);
    }
    round_in(clips, gradient, key);
  }
};

}  // namespace

std::unique_ptr<Policy> make_dai8(const Config& config) {
  return std::make_unique<DistributionAdaptive>(config.policy);
}

}  // namespace octet
