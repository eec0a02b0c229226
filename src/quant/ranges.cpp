#include "src/quant/ranges.h"

#include <algorithm>
#include <utility>

namespace octet {

float next_range(float range, float largest) {
  constexpr float smallest = 0x1p-60f;  // of a tensor of zeros
  constexpr float decay = 0.99f;        // an outlier raises the range for about a hundred steps
  return std::max({largest, decay * range, smallest});
}

ActivationRanges::ActivationRanges(Transport& transport, Backend& backend) : transport_(transport), backend_(backend) {}

int ActivationRanges::add_layer(const std::string& name) {
  const auto known = std::ranges::find(names_, name);
  if (known != names_.end()) return int(known - names_.begin());
  names_.push_back(name);
  return layers() - 1;
}

void ActivationRanges::bind(float* held) {
  held_ = held;
  elements_.resize(names_.size());
  const size_t count = std::max<size_t>(names_.size(), 1);
  largest_ = backend_.allocate(count * sizeof(float));
  saturated_ = backend_.allocate(count * sizeof(uint64_t));
  read();
}

void ActivationRanges::read() {
  ranges_.resize(names_.size());
  backend_.to_host(ranges_.data(), held_, ranges_.size() * sizeof(float));
}

void ActivationRanges::hold() { backend_.to_device(held_, ranges_.data(), ranges_.size() * sizeof(float)); }

bool ActivationRanges::settled() const {
  return std::ranges::all_of(ranges_, [](float range) { return range > 0; });
}

void ActivationRanges::encode(int layer, Encoding encoding, int64_t elements, bool training,
                              const std::function<void(const Encoding&, Probe)>& pass) {
  float* const largest = static_cast<float*>(largest_->data()) + layer;
  encoding.held = held_ + layer;
  if (range(layer) == 0) {
    REQUIRE_USAGE(training, "evaluate weights that were trained with held ranges, or set policy.activation_range: batch",
                  "the weights hold no range of the activation '", names_[size_t(layer)], "'");
    Encoding measuring = encoding;
    measuring.range = Range::absmax;
    pass(measuring, {.largest = largest});
    float measured = 0;
    backend_.to_host(&measured, largest, sizeof measured);
    transport_.all_reduce_max(std::span(&measured, 1));
    ranges_[size_t(layer)] = next_range(0, measured);
    primed_.push_back(layer);
    backend_.to_device(held_ + layer, &ranges_[size_t(layer)], sizeof(float));
  }
  Probe probe;
  if (training) {
    elements_[size_t(layer)] = double(elements);
    probe = {.saturated = static_cast<uint64_t*>(saturated_->data()) + layer, .largest = largest};
  }
  pass(encoding, probe);
}

void ActivationRanges::begin() {
  primed_.clear();
  const std::vector<uint64_t> zeros(names_.size());
  backend_.to_device(largest_->data(), zeros.data(), names_.size() * sizeof(float));
  backend_.to_device(saturated_->data(), zeros.data(), names_.size() * sizeof(uint64_t));
}

void ActivationRanges::postpone() {
  for (const int layer : std::exchange(primed_, {})) ranges_[size_t(layer)] = 0;
  hold();
}

void ActivationRanges::counts(std::span<double> into) const {
  std::vector<uint64_t> saturated(names_.size());
  backend_.to_host(saturated.data(), saturated_->data(), saturated.size() * sizeof(uint64_t));
  for (size_t layer = 0; layer < names_.size(); ++layer) {
    into[2 * layer] = double(saturated[layer]);
    into[2 * layer + 1] = elements_[layer];
  }
}

void ActivationRanges::update(std::span<const double> summed) {
  std::vector<float> largest(names_.size());
  backend_.to_host(largest.data(), largest_->data(), largest.size() * sizeof(float));
  transport_.all_reduce_max(std::span(largest));
  double saturated = 0, elements = 0;
  for (size_t layer = 0; layer < names_.size(); ++layer) {
    saturated += summed[2 * layer];
    elements += summed[2 * layer + 1];
    ranges_[layer] = next_range(ranges_[layer], largest[layer]);
  }
  saturated_share_ = elements > 0 ? saturated / elements : 0;
  hold();
}

}  // namespace octet
