#include "src/graph/weight_clips.h"

#include <algorithm>

#include "kernels/shared/encode.h"
#include "src/quant/clip.h"

namespace octet {
namespace {

constexpr int candidates = 32;
constexpr int64_t sampled_elements = 65536;  // enough for a histogram
constexpr int64_t most_blocks = 1024;        // Probe::sample's limit

}  // namespace

WeightClips::WeightClips(Backend& backend, std::vector<Param>& params) : backend_(backend) {
  const auto lacks_clip = [](const Param& param) {
    return param.encoding.quantized() && param.encoding.range == Range::held && param.encoding.held == nullptr;
  };
  const size_t count = size_t(std::count_if(params.begin(), params.end(), lacks_clip));
  if (count == 0) return;
  clips_ = backend.allocate(count * sizeof(float));
  histograms_ = backend.allocate(count * histogram_bins * sizeof(uint32_t));
  for (Param& param : params) {
    if (!lacks_clip(param)) continue;
    param.encoding.held = static_cast<float*>(clips_->data()) + params_.size();
    params_.push_back(&param);
  }
}

void WeightClips::choose() {
  if (params_.empty()) return;
  std::vector<uint32_t> counts(params_.size() * histogram_bins);
  auto* const histograms = static_cast<uint32_t*>(histograms_->data());
  backend_.to_device(histograms, counts.data(), counts.size() * sizeof(uint32_t));
  for (size_t i = 0; i < params_.size(); ++i) {
    Encoding whole = params_[i]->encoding;
    whole.range = Range::absmax;
    const int64_t sample = std::clamp<int64_t>(params_[i]->shape.elements() / sampled_elements, 1, most_blocks);
    const Probe probe{.histogram = histograms + i * histogram_bins, .sample = int(sample)};
    backend_.quantize({params_[i]->master, whole, RngKey(), params_[i]->codes, probe});
  }
  backend_.to_host(counts.data(), histograms, counts.size() * sizeof(uint32_t));
  std::vector<float> clips;
  for (size_t i = 0; i < params_.size(); ++i) {
    const auto first = counts.begin() + ptrdiff_t(i * histogram_bins);
    const std::vector<int64_t> histogram(first, first + histogram_bins);
    clips.push_back(choose_clip(histogram, params_[i]->encoding.qmax, candidates, true, Rounding::nearest).clip);
  }
  backend_.to_device(clips_->data(), clips.data(), clips.size() * sizeof(float));
}

}  // namespace octet
