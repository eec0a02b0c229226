#include "src/quant/ranges.h"

#include <algorithm>
#include <utility>

namespace octet {

namespace {
constexpr float smallest_range = 0x1p-20f;  // of a tensor of zeros
}

float next_range(float range, double saturated_share) {
  constexpr double wanted = 0x1p-15, gain = 0.01, most = 100;  // a range at most doubles
  const double excess = std::min(saturated_share / wanted - 1, most);
  return std::max(range * float(1 + gain * excess), smallest_range);
}

ActivationRanges::ActivationRanges(Transport& transport, Backend& backend, bool rank_0_measures)
    : transport_(transport), backend_(backend), rank_0_measures_(rank_0_measures) {}

int ActivationRanges::add_layer(const std::string& name) {
  const auto known = std::ranges::find(names_, name);
  if (known != names_.end()) return int(known - names_.begin());
  names_.push_back(name);
  return layers() - 1;
}

void ActivationRanges::bind(float* held) {
  held_ = held;
  largest_ = backend_.allocate(sizeof(float));
  saturated_ = backend_.allocate(std::max<size_t>(names_.size(), 1) * sizeof(uint64_t));
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

void ActivationRanges::encode(int layer, Encoding encoding, bool measures,
                              const std::function<void(const Encoding&, Probe)>& pass) {
  encoding.held = held_ + layer;
  if (range(layer) == 0) {
    REQUIRE_USAGE(measures,
                  "measure the ranges with `octet calibrate`, evaluate weights that were trained with held ranges, or "
                  "set policy.activation_range: batch",
                  "the weights hold no range of the activation '", names_[size_t(layer)], "'");
    Encoding measuring = encoding;
    measuring.range = Range::absmax;
    float measured = 0;
    backend_.to_device(largest_->data(), &measured, sizeof measured);
    pass(measuring, {.largest = static_cast<float*>(largest_->data())});
    backend_.to_host(&measured, largest_->data(), sizeof measured);
    if (rank_0_measures_)
      transport_.broadcast(std::as_writable_bytes(std::span(&measured, 1)), 0);
    else
      transport_.all_reduce_max(std::span(&measured, 1));
    ranges_[size_t(layer)] = std::max(measured, smallest_range);
    primed_.push_back(layer);
    backend_.to_device(held_ + layer, &ranges_[size_t(layer)], sizeof(float));
  }
  uint64_t* const saturated = static_cast<uint64_t*>(saturated_->data()) + layer;
  pass(encoding, {.saturated = measures ? saturated : nullptr});
}

void ActivationRanges::begin() {
  primed_.clear();
  restart();
}

void ActivationRanges::restart() {
  const std::vector<uint64_t> zeros(names_.size());
  backend_.to_device(saturated_->data(), zeros.data(), names_.size() * sizeof(uint64_t));
}

void ActivationRanges::postpone() {
  for (const int layer : std::exchange(primed_, {})) ranges_[size_t(layer)] = 0;
  hold();
}

void ActivationRanges::counts(std::span<const int64_t> elements, std::span<double> into, int times) const {
  std::vector<uint64_t> saturated(names_.size());
  backend_.to_host(saturated.data(), saturated_->data(), saturated.size() * sizeof(uint64_t));
  for (size_t layer = 0; layer < names_.size(); ++layer) {
    into[2 * layer] = double(saturated[layer]);
    into[2 * layer + 1] = layer < elements.size() ? double(elements[layer] * times) : 0;
  }
}

void ActivationRanges::update(std::span<const double> summed) {
  double saturated = 0, elements = 0;
  for (size_t layer = 0; layer < names_.size(); ++layer) {
    const double of_layer = summed[2 * layer], all = summed[2 * layer + 1];
    saturated += of_layer;
    elements += all;
    if (all > 0) ranges_[layer] = next_range(ranges_[layer], of_layer / all);
  }
  saturated_share_ = elements > 0 ? saturated / elements : 0;
  hold();
}

}  // namespace octet
