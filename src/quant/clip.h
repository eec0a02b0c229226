// Chooses the clip of each layer's grad_output (the paper's activation gradient g_z), and the factor by which each
// layer's learning rate is multiplied. Implements Direction Sensitive Gradient Clipping (section 3.4), Deviation
// Counteractive Learning Rate Scaling (3.5) and Periodic Update (3.6) of "Towards Unified INT8 Training for
// Convolutional Neural Network" (CVPR 2020). A clip is the magnitude beyond which values saturate. d_c is the cosine
// distance between a gradient and its clipped and rounded version.
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
  float nonzero = 1;          // share of elements that are not in bin 0 of the histogram
};

// Returns the clip with the smallest d_c. histogram: (histogram_bins) counts of |g|. d_c of a clip c follows from the
// histogram and from the expected noise of stochastic rounding with step s = c / qmax. The variance of a rounded value
// is |x| s - x^2 for |x| < s, and s^2 / 6 on average for s <= |x| < c. Clipped values have no noise. Prefix sums over
// the bins make the cost of a candidate O(1). The search tries `candidates` clips between 2^-6 and 1 times the largest
// magnitude, then the bin edges next to the best one. search = false: evaluates only the largest magnitude. With
// Rounding::nearest, d_c is computed from the values rounded to the nearest multiple of s, without a noise term and at
// a cost of O(qmax).
ClipChoice choose_clip(std::span<const int64_t> histogram, int qmax, int candidates, bool search,
                       Rounding rounding = Rounding::stochastic);
// phi(d_c) = max(exp(-alpha d_c), beta), equation (8).
float learning_rate_scale(float cosine_distance, double alpha, double beta);

// Holds the clip and the learning-rate factor of each layer. Histograms can be added, so one reduction gives rank 0
// every layer's histogram of the global gradient. Rank 0 chooses all clips and broadcasts them in one table, so all
// ranks quantize with the same clips.
class ClipCoordinator {
 public:
  // Histograms and counts are in the backend's memory, where the backend's kernels write them.
  // rank_0_primes: prime() takes the histogram of rank 0 alone.
  ClipCoordinator(const Config::Policy&, Transport&, Backend&, bool rank_0_primes = false);
  int add_layer(const std::string& name);  // called while plans are built; returns the same index for the same name
  int layers() const { return static_cast<int>(layers_.size()); }
  const std::string& name(int layer) const { return layers_[layer]; }

  // Addresses of a layer's current values, in the backend's memory. A clip is 0 until it is known.
  const float* clip(int layer) const { return held_clips() + layer; }
  const float* lr_scale(int layer) const { return held_clips() + most_layers + layer; }
  bool known(int layer) const { return choices_[layer].clip > 0; }

  // Whether a step updates the clips: steps 0, 1, 2, 4, 8 ..., every `period` steps, and after too much saturation.
  bool due(int64_t step) const { return due_by_number(step) || forced_; }
  // Whether every layer's clip is known. If not, the step must call prime() before it quantizes.
  bool settled() const;
  // Discards the observations of a skipped step. If the step was due, the next step is due instead. Clips that the
  // skipped step primed are unknown again.
  void postpone();
  void begin(int64_t step);  // starts a step: clears histograms and counts
  void restart();            // clears the histograms and counts of this step
  bool observing() const { return observing_; }
  // Whether this step counts another sample than steps that are due by their number.
  bool samples_as_forced() const { return observing_ && now_ != sample_; }
  // Where a layer's quantization pass writes its counts. The pass fills the histogram on due steps only. If the tensor
  // is large, it counts a sample of the elements.
  // The tensor consists of `parts` parts of `elements` each; every part has a pass of its own.
  Probe probe(int layer, int64_t elements, int64_t parts = 1);
  // Collective. Decides one layer's clip immediately, from the histogram that the layer has just filled. The first step
  // needs this, since no clip is known yet.
  void prime(int layer);
  // Collective, called after backward. On a due step, sums the histograms on rank 0, decides there, and broadcasts the
  // clips, which the next step uses. On any other step, does nothing and returns false.
  bool update();
  // Writes {saturated, elements} of the last step for each layer, to be summed over ranks. into: (2 * layers()).
  void counts(std::span<double> into) const;
  // Decides from the counts of all ranks whether the next step must update the clips. The result is the same on every
  // rank.
  void judge(std::span<const double> summed);

  struct State {  // for checkpoints and clips.jsonl
    std::vector<ClipChoice> choices;
    bool forced = false;  // the next step updates the clips in any case
  };
  State state() const { return {choices_, forced_}; }
  void restore(const State&);
  // (histogram_bins) counts of |g| at the last update, summed over all ranks. On rank 0 only.
  std::span<const int64_t> summed(int layer) const {
    return std::span(summed_).subspan(size_t(layer) * histogram_bins, histogram_bins);
  }
  // The same counts, added up for each power of two from 2^-44 to 2^4. The first count includes smaller values. On rank
  // 0 only.
  std::vector<int64_t> octaves(int layer) const;
  double saturated_share(int layer) const { return shares_[layer]; }  // in the last step that judge() saw

 private:
  static constexpr int most_layers = 4096;

  bool due_by_number(int64_t step) const;

  void decide(std::span<const int64_t> histograms, int first, int count);
  void publish(int first, int count);
  void hold(int first, int count);
  float* held_clips() const { return static_cast<float*>(held_->data()); }
  uint32_t* histogram(int layer) const {
    return static_cast<uint32_t*>(histograms_->data()) + int64_t{layer} * histogram_bins;
  }
  std::vector<int64_t> histograms(int first, int count) const;  // of this rank, for `count` layers from `first` on
  void clear_histograms(int first, int count);

  Transport& transport_;
  Backend& backend_;
  const bool rank_0_primes_;
  bool clipping_, scaling_;
  int64_t period_;
  int candidates_, sample_, forced_sample_, now_, qmax_;  // now_: the sample of this step
  double alpha_, beta_;
  std::vector<std::string> layers_;
  std::vector<ClipChoice> choices_;
  std::unique_ptr<Buffer> histograms_;  // (layers, histogram_bins) counts on the device, allocated at the first step
  std::unique_ptr<Buffer> saturated_;   // (layers) counts on the device
  std::unique_ptr<Buffer> held_;        // (2, most_layers) clips and learning-rate scales on the device
  std::vector<int64_t> summed_;         // histograms of the last update, over all ranks
  std::vector<uint64_t> elements_;
  std::vector<bool> used_;  // by layer: this step has called probe()
  std::vector<double> shares_;
  std::vector<int> primed_;  // layers that were primed in this step
  bool observing_ = false, forced_ = false;
};

}  // namespace octet
