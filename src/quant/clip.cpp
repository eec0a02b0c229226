#include "src/quant/clip.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/shared/encode.h"
#include "kernels/shared/math.h"

namespace octet {
namespace {

constexpr int64_t cheap_period = 4;  // at this period or above, the searches cost less than 5 % of the steps
constexpr int64_t smallest_sample =
    65536;  // elements per rank: their second moment is within about 1 % of that of all elements

// Prefix sums over the bins. The sums that a candidate clip needs are differences of these.
struct PrefixSums {
  std::vector<double> count, first, second;  // of 1, |x|, x^2
  explicit PrefixSums(std::span<const int64_t> histogram)
      : count(histogram.size() + 1), first(histogram.size() + 1), second(histogram.size() + 1) {
    for (size_t bin = 0; bin < histogram.size(); ++bin) {
      // Bin 0 also holds zeros and values below the first edge. They count as zero.
      const double middle =
          bin == 0 ? 0 : 0.5 * (double(histogram_edge(int(bin))) + double(histogram_edge(int(bin) + 1)));
      const double n = double(histogram[bin]);
      count[bin + 1] = count[bin] + n;
      first[bin + 1] = first[bin] + n * middle;
      second[bin + 1] = second[bin] + n * middle * middle;
    }
  }
};

double cosine_distance(double dot, double square, double rounded_square) {
  const double norm = std::sqrt(square) * std::sqrt(rounded_square);
  return norm > 0 ? std::max(0.0, 1 - dot / norm) : 0;
}

// Expected cosine distance (7) if values are clipped at the lower edge of bin `clip_bin` and rounded stochastically to
// qmax levels.
double distance_stochastic(const PrefixSums& sums, int clip_bin, int qmax) {
  const double clip = histogram_edge(clip_bin);
  const double step = clip / qmax;
  const int step_bin = histogram_bin(float(step));
  const size_t last = sums.count.size() - 1;
  const double beyond = sums.count[last] - sums.count[clip_bin];
  const double dot = sums.second[clip_bin] + clip * (sums.first[last] - sums.first[clip_bin]);
  const double clipped_square = sums.second[clip_bin] + clip * clip * beyond;
  const double noise = step * sums.first[step_bin] - sums.second[step_bin] +
                       step * step / 6 * (sums.count[clip_bin] - sums.count[step_bin]);
  return cosine_distance(dot, sums.second[last], clipped_square + noise);
}

// The same if values are rounded to the nearest of the levels step, 2 step ... clip.
double distance_nearest(const PrefixSums& sums, int clip_bin, int qmax) {
  const double step = double(histogram_edge(clip_bin)) / qmax;
  const int last = int(sums.count.size()) - 1;
  double dot = 0, square = 0;
  int from = histogram_bin(float(0.5 * step));
  for (int code = 1; code <= qmax; ++code) {
    const int to = code == qmax ? last : histogram_bin(float((code + 0.5) * step));
    dot += code * step * (sums.first[to] - sums.first[from]);
    square += code * step * code * step * (sums.count[to] - sums.count[from]);
    from = to;
  }
  return cosine_distance(dot, sums.second[last], square);
}

}  // namespace

ClipChoice choose_clip(std::span<const int64_t> histogram, int qmax, int candidates, bool search, Rounding rounding) {
  int top = int(histogram.size()) - 1;
  while (top > 0 && histogram[top] == 0) --top;
  const int largest = std::max(top + 1, 1);  // the upper edge of the highest bin in use
  const PrefixSums sums(histogram);
  const auto distance_at = [&](int bin) {
    return rounding == Rounding::nearest ? distance_nearest(sums, bin, qmax) : distance_stochastic(sums, bin, qmax);
  };

  int best = largest;
  double best_distance = distance_at(largest);
  const auto consider = [&](int bin) {
    if (bin < 1 || bin > largest) return;
    const double distance = distance_at(bin);
    if (distance < best_distance) best = bin, best_distance = distance;
  };
  if (search) {
    const int octaves = 6, range = octaves * 64;  // 64 bins an octave
    const int stride = std::max(1, range / std::max(1, candidates - 1));
    for (int bin = largest; bin >= largest - range; bin -= stride) consider(bin);
    const int coarse = best;
    for (int bin = coarse - stride + 1; bin < coarse + stride; ++bin) consider(bin);
  }
  const double total = sums.count.back();
  ClipChoice choice;
  choice.clip = histogram_edge(best);
  choice.cosine_distance = float(best_distance);
  choice.saturated = total > 0 ? float((total - sums.count[best]) / total) : 0;
  choice.nonzero = total > 0 ? float((total - sums.count[1]) / total) : 0;
  return choice;
}

float learning_rate_scale(float cosine_distance, double alpha, double beta) {
  return float(std::max(exponential(-alpha * double(cosine_distance)), beta));
}

ClipCoordinator::ClipCoordinator(const Config::Policy& policy, Transport& transport, Backend& backend,
                                 bool rank_0_primes)
    : transport_(transport),
      backend_(backend),
      rank_0_primes_(rank_0_primes),
      clipping_(policy.clip.enabled),
      scaling_(policy.lr_scale.enabled),
      period_(policy.clip.period),
      candidates_(int(policy.clip.candidates)),
      sample_(int(policy.clip.sample > 0 ? policy.clip.sample
                                         : (cheap_period + policy.clip.period - 1) / policy.clip.period)),
      forced_sample_(int(policy.clip.forced_sample > 0 ? policy.clip.forced_sample : sample_)),
      now_(sample_),
      qmax_((1 << (policy.bits.gradient - 1)) - 1),
      alpha_(policy.lr_scale.alpha),
      beta_(policy.lr_scale.beta),
      saturated_(backend.allocate(most_layers * sizeof(uint64_t))),
      held_(backend.allocate(2 * most_layers * sizeof(float))) {}

int ClipCoordinator::add_layer(const std::string& name) {
  const auto known = std::ranges::find(layers_, name);
  if (known != layers_.end()) return int(known - layers_.begin());
  REQUIRE_USAGE(layers() < most_layers, "use a network of fewer layers", "more than ", most_layers,
                " quantized layers");
  layers_.push_back(name);
  choices_.emplace_back();
  hold(layers() - 1, 1);
  elements_.push_back(0);
  used_.push_back(false);
  shares_.push_back(0);
  return layers() - 1;
}

bool ClipCoordinator::due_by_number(int64_t step) const {
  const bool early = step < period_ && (step & (step - 1)) == 0;
  return early || step % period_ == 0;
}

bool ClipCoordinator::settled() const {
  return std::all_of(choices_.begin(), choices_.end(), [](const ClipChoice& choice) { return choice.clip > 0; });
}

void ClipCoordinator::postpone() {
  forced_ = forced_ || observing_;
  for (const int layer : std::exchange(primed_, {})) {
    choices_[layer] = {};
    hold(layer, 1);
  }
}

void ClipCoordinator::begin(int64_t step) {
  primed_.clear();
  if (layers() == 0) return;  // all layers with codes are frozen
  observing_ = due(step);
  now_ = due_by_number(step) ? sample_ : forced_sample_;
  if (histograms_ == nullptr && layers() > 0)
    histograms_ = backend_.allocate(layers_.size() * histogram_bins * sizeof(uint32_t));
  restart();
}

void ClipCoordinator::restart() {
  std::fill(used_.begin(), used_.end(), false);
  if (observing_) clear_histograms(0, layers());
  const std::vector<uint64_t> none(layers_.size());
  backend_.to_device(saturated_->data(), none.data(), none.size() * sizeof(uint64_t));
}

Probe ClipCoordinator::probe(int layer, int64_t elements, int64_t parts) {
  // A layer may be used several times in a step. A device that repeats a recorded step does not call this again, so the
  // number of the step that was recorded stays.
  const uint64_t before = used_[layer] ? elements_[layer] : 0;
  used_[layer] = true;
  elements_[layer] = before + uint64_t(elements * parts);
  return {observing_ ? histogram(layer) : nullptr, static_cast<uint64_t*>(saturated_->data()) + layer,
          elements / now_ >= smallest_sample ? now_ : 1};
}

std::vector<int64_t> ClipCoordinator::histograms(int first, int count) const {
  std::vector<uint32_t> counts(size_t(count) * histogram_bins);
  backend_.to_host(counts.data(), histogram(first), counts.size() * sizeof(uint32_t));
  return {counts.begin(), counts.end()};
}

void ClipCoordinator::clear_histograms(int first, int count) {
  const std::vector<uint32_t> none(size_t(count) * histogram_bins);
  backend_.to_device(histogram(first), none.data(), none.size() * sizeof(uint32_t));
}

void ClipCoordinator::decide(std::span<const int64_t> histograms, int first, int count) {
  for (int i = 0; i < count; ++i) {
    ClipChoice choice =
        choose_clip(histograms.subspan(size_t(i) * histogram_bins, histogram_bins), qmax_, candidates_, clipping_);
    choice.lr_scale = scaling_ ? learning_rate_scale(choice.cosine_distance, alpha_, beta_) : 1.0f;
    // A gradient of zeros does not tell how large the next gradient is. A known clip is kept. An unknown clip becomes
    // the smallest one, so that judge() notices the first nonzero gradient.
    if (choice.nonzero == 0 && known(first + i)) choice.clip = choices_[first + i].clip;
    choices_[first + i] = choice;
  }
}

void ClipCoordinator::publish(int first, int count) {
  transport_.broadcast(std::as_writable_bytes(std::span(choices_).subspan(first, count)), 0);
  hold(first, count);
}

void ClipCoordinator::hold(int first, int count) {
  std::vector<float> clips, scales;
  for (const ClipChoice& choice : std::span(choices_).subspan(first, count)) {
    clips.push_back(choice.clip);
    scales.push_back(choice.lr_scale);
  }
  backend_.to_device(held_clips() + first, clips.data(), clips.size() * sizeof(float));
  backend_.to_device(held_clips() + most_layers + first, scales.data(), scales.size() * sizeof(float));
}

void ClipCoordinator::prime(int layer) {
  std::vector<int64_t> counts = histograms(layer, 1);
  if (!rank_0_primes_) transport_.reduce_sum(counts, 0);
  if (transport_.rank() == 0) decide(counts, layer, 1);
  publish(layer, 1);
  primed_.push_back(layer);
  clear_histograms(layer, 1);
}

bool ClipCoordinator::update() {
  if (!observing_) return false;
  summed_ = histograms(0, layers());
  transport_.reduce_sum(summed_, 0);
  if (transport_.rank() == 0) decide(summed_, 0, layers());
  publish(0, layers());
  forced_ = false;
  return true;
}

std::vector<int64_t> ClipCoordinator::octaves(int layer) const {
  std::vector<int64_t> counts(histogram_bins / 64);
  for (size_t bin = 0; bin < size_t(histogram_bins); ++bin) counts[bin / 64] += summed(layer)[bin];
  return counts;
}

void ClipCoordinator::counts(std::span<double> into) const {
  std::vector<uint64_t> saturated(layers_.size());
  backend_.to_host(saturated.data(), saturated_->data(), saturated.size() * sizeof(uint64_t));
  for (int layer = 0; layer < layers(); ++layer) {
    into[2 * layer] = double(saturated[layer]);
    into[2 * layer + 1] = double(elements_[layer]);
  }
}

void ClipCoordinator::judge(std::span<const double> summed) {
  for (int layer = 0; layer < layers(); ++layer) {
    shares_[layer] = summed[2 * layer + 1] > 0 ? summed[2 * layer] / summed[2 * layer + 1] : 0;
    // The best clip of a heavy-tailed gradient already saturates some elements, so only saturation beyond the expected
    // share forces an update. Zeros never saturate, so the limit refers to the nonzero elements.
    const ClipChoice& choice = choices_[layer];
    const double foreseen = 1e-4 * double(choice.nonzero) + 4 * double(choice.saturated);
    if (clipping_ && !observing_ && shares_[layer] > foreseen) forced_ = true;
  }
}

void ClipCoordinator::restore(const State& state) {
  REQUIRE(state.choices.size() == choices_.size(), "resume with the same model and policy",
          "the checkpoint holds clips of ", state.choices.size(), " layers, this network has ", choices_.size());
  choices_ = state.choices;
  forced_ = state.forced;
  hold(0, layers());
}

}  // namespace octet
