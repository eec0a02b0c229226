// Chooses, for every layer, where its error (the paper's activation gradient g_z) is clipped, and how far its learning
// rate is scaled down: Direction Sensitive Gradient Clipping (section 3.4), Deviation Counteractive Learning Rate
// Scaling (3.5) and Periodic Update (3.6) of "Towards Unified INT8 Training for Convolutional Neural Network" (CVPR
// 2020).
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "kernels/backend.h"
#include "kernels/shared/encode.h"
#include "src/config/config.h"

namespace octet {

struct ClipChoice {
  float clip = 0;             // 0: not known yet
  float cosine_distance = 0;  // expected d_c at this clip, equation (7)
  float lr_scale = 1;         // phi(d_c), equation (8)
  float saturated = 0;        // expected share of elements beyond the clip
  float nonzero = 1;          // share of elements that the histogram tells from zero
};

// d_c of every candidate clip follows from a histogram of |g| over float bits, with the expected noise of stochastic
// rounding: for |x| < s the variance is |x| s - x^2, for s <= |x| < c it is s^2 / 6, and clipped values have none.
// Prefix sums make a candidate O(1), so `candidates` clips between 2^-6 and 1 times the largest magnitude are tried,
// then refined to the neighbouring bin edges. search = false: evaluates the largest magnitude alone. With rounding to
// nearest d_c is that of the codes themselves.
ClipChoice choose_clip(std::span<const int64_t> histogram, int qmax, int candidates, bool search,
                       Rounding rounding = Rounding::stochastic);
// phi(d_c) = max(exp(-alpha d_c), beta), equation (8).
float learning_rate_scale(float cosine_distance, double alpha, double beta);

// Histograms add, so one reduction gives rank 0 the global gradient's histogram of every layer; rank 0 decides, and
// broadcasts one table, so every rank quantizes alike.
class ClipCoordinator {
 public:
  // The backend's memory holds what its kernels report into.
  ClipCoordinator(const Config::Policy&, Transport&, Backend&);
  int add_layer(const std::string& name);  // while plans are built; the same layer for the same name
  int layers() const { return static_cast<int>(layers_.size()); }
  const std::string& name(int layer) const { return layers_[layer]; }

  // Held values, in the backend's memory. A clip is 0 until it is known.
  const float* clip(int layer) const { return held_clips() + layer; }
  const float* lr_scale(int layer) const { return held_clips() + most_layers + layer; }
  bool known(int layer) const { return choices_[layer].clip > 0; }

  // Steps 0, 1, 2, 4, 8 ... and every `period`, or when saturations forced it.
  bool due(int64_t step) const;
  // Whether every layer's clip is known: else a step measures first, and waits for it (prime).
  bool settled() const;
  // What the step observed is of no use: if it was due the next step is, and clips that it primed are unknown again.
  void postpone();
  void begin(int64_t step);  // clears what the step will observe
  bool observing() const { return observing_; }
  // What layer's quantization pass reports into; the histogram only on a due step, of a sample where that is still
  // large.
  Probe probe(int layer, int64_t elements);
  // Collective. Decides one layer's clip at once: the first step measures before it quantizes.
  void prime(int layer);
  // Collective, on a due step after backward: reduce, decide on rank 0, broadcast; the new clips serve the next step.
  // False: the step was not due, nothing happened.
  bool update();
  // Counts of the step just run, to be summed over ranks: {saturated, elements} per layer.
  void counts(std::span<double> into) const;
  // The sums: decides (alike on every rank) whether the next step must refresh.
  void judge(std::span<const double> summed);

  struct State {  // for checkpoints and clips.jsonl
    std::vector<ClipChoice> choices;
    bool forced = false;
  };
  State state() const { return {choices_, forced_}; }
  void restore(const State&);
  // Counts of |g| of the last update over all ranks, (histogram_bins) of them; rank 0 alone has them.
  std::span<const int64_t> summed(int layer) const {
    return std::span(summed_).subspan(size_t(layer) * histogram_bins, histogram_bins);
  }
  // The same by powers of two from 2^-44 (with all below) to 2^4; rank 0 alone has them.
  std::vector<int64_t> octaves(int layer) const;
  double saturated_share(int layer) const { return shares_[layer]; }  // in the last judged step

 private:
  static constexpr int most_layers = 4096;

  void decide(std::span<const int64_t> histograms, int first, int count);
  void publish(int first, int count);
  void hold(int first, int count);
  float* held_clips() const { return static_cast<float*>(held_->data()); }
  uint32_t* histogram(int layer) const {
    return static_cast<uint32_t*>(histograms_->data()) + int64_t{layer} * histogram_bins;
  }
  std::vector<int64_t> histograms(int first, int count) const;  // this rank's, of some layers
  void clear_histograms(int first, int count);

  Transport& transport_;
  Backend& backend_;
  bool clipping_, scaling_;
  int64_t period_;
  int candidates_, sample_, qmax_;
  double alpha_, beta_;
  std::vector<std::string> layers_;
  std::vector<ClipChoice> choices_;
  std::unique_ptr<Buffer> histograms_;  // (layers, histogram_bins) counts on the device, from the first step on
  std::unique_ptr<Buffer> saturated_;   // (layers) counts on the device
  std::unique_ptr<Buffer> held_;        // (2, most_layers) clips and learning-rate scales on the device
  std::vector<int64_t> summed_;         // histograms of the last update, over all ranks
  std::vector<uint64_t> elements_;
  std::vector<double> shares_;
  std::vector<int> primed_;  // layers, in this step
  bool observing_ = false, forced_ = false;
};

}  // namespace octet
