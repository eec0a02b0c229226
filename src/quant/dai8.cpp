// Distribution Adaptive INT8 Quantization (Zhao et al., AAAI 2021), simulated: q(x) = round(127 clamp(x, -s, s) / s),
// times s / 127.
//   weight, activation  s = max |x|, rounded to nearest
//   error               rounded twice: with one s for the data gradient, and with one for each output channel for the
//                       weight gradient ("gradient vectorized quantization"). Where the values are bell-shaped,
//                       P(|g| > deviation) > 0.3, s = max |g|; else ("inverted T") s = (1 - k A) s of the step before
//                       + A max |g|, k = 1, A = 0.8 ("magnitude-aware clipping")
// Read from summaries of the paper, whose authors published no code. Where they are silent: errors are rounded
// stochastically, the data gradient's s follows the same rule, s of the first step is max |g|.
#include <omp.h>

#include <numeric>
#include <vector>

#include "kernels/cpu/real_moments.h"
#include "src/quant/policies.h"
#include "src/quant/simulated.h"

namespace octet {
namespace {
using namespace simulated;

constexpr double bell_share = 0.3;
constexpr float k = 1, rate = 0.8f;  // k and A

// Of a channel's values, or of all.
struct Spread {
  float largest, deviation;
};

std::vector<Spread> spreads_of(Tensor error, Shape shape) {
  const auto channels = size_t(shape.c);
  std::vector<float> mean(channels), variance(channels), low(channels), high(channels);
  cpu::Scratch scratch;
  cpu::measure_moments(omp_get_max_threads(), error.f32(), shape,
                       {mean.data(), variance.data(), low.data(), high.data()}, scratch);
  std::vector<Spread> spreads(channels);
  for (size_t c = 0; c < channels; ++c) spreads[c] = {std::max(high[c], -low[c]), std::sqrt(variance[c])};
  return spreads;
}

// By channel, how many values are larger than its deviation.
std::vector<int64_t> count_beyond(Tensor error, const std::vector<Spread>& spreads) {
  const int64_t channels = error.shape.c;
  std::vector<int64_t> beyond(spreads.size());
  for_runs(error.shape.pixels(), 256, [&, values = error.f32()](int64_t begin, int64_t end) {
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

// Each channel in its own range, stochastically.
void round_in(const std::vector<float>& clips, Tensor error, const RngKey& key) {
  std::vector<float> inverses, steps;  // from any channel on, for the values of a run
  for (size_t i = 0; i < size_t(run_length) + clips.size(); ++i) {
    inverses.push_back(inverse_scale_of(clips[i % clips.size()], 127));
    steps.push_back(scale_of(clips[i % clips.size()], 127));
  }
  for_runs(error.elements(), run_length,
           [=, values = error.f32(), inverses = inverses.data(), steps = steps.data(), channels = error.shape.c](
               int64_t begin, int64_t end) {
             const float *const inverse = inverses + begin % channels, *const step = steps + begin % channels;
             each_random(values, begin, end, key, [=](float& g, int64_t i, float u) {
               g = floor_of(clamp(g * inverse[i - begin], -127, 127) + u) * step[i - begin];
             });
           });
}

class DistributionAdaptive final : public SimulatedPolicy {
 public:
  explicit DistributionAdaptive(const Config::Policy& config) : SimulatedPolicy(config) { require_bits(8, 8, 8); }
  std::string name() const override { return "dai8"; }
  bool splits_error() const override { return true; }

  void round(Role, Tensor values, const RngKey&) const override {
    const float largest = absmax(values), inverse = inverse_scale_of(largest, 127), step = scale_of(largest, 127);
    for_each(values, [=](float& x, int64_t) { x = nearest_integer(x * inverse) * step; });
  }

  int64_t error_clips(int64_t channels) const override { return channels + 1; }  // each channel's, then the tensor's
  void round_error(Role role, Tensor error, const RngKey& key, const float* before, float* now) const override {
    const int64_t channels = error.shape.c, pixels = error.shape.pixels();
    std::vector<Spread> spreads =
        role == Role::weight_error
            ? spreads_of(error, error.shape)
            : std::vector(size_t(channels), spreads_of(error, {1, 1, error.elements(), 1}).front());
    const std::vector<int64_t> beyond = count_beyond(error, spreads);
    std::vector<float> clips(spreads.size());
    if (role == Role::weight_error) {
      for (size_t c = 0; c < clips.size(); ++c)
        clips[c] = now[c] = clip_of(spreads[c].largest, beyond[c], pixels, before[c]);
    } else {
      const int64_t all = std::accumulate(beyond.begin(), beyond.end(), int64_t{0});
      now[channels] = clip_of(spreads.front().largest, all, error.elements(), before[channels]);
      std::fill(clips.begin(), clips.end(), now[channels]);
    }
    round_in(clips, error, key);
  }
};

}  // namespace

std::unique_ptr<Policy> make_dai8(const Config::Policy& config) {
  return std::make_unique<DistributionAdaptive>(config);
}

}  // namespace octet
