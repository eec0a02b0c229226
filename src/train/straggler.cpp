#include "src/train/straggler.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

namespace octet {
namespace {

constexpr double slow_factor = 2, minute = 60;  // times the median; seconds

// Of what the other ranks take.
double median_without(const std::vector<Heartbeat>& ranks, int left_out) {
  std::vector<double> times;
  for (const Heartbeat& of : ranks)
    if (of.rank != left_out && of.own_seconds() > 0) times.push_back(of.own_seconds());
  if (times.empty()) return NAN;
  const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace

std::optional<Straggler> slowest(const std::vector<Heartbeat>& ranks) {
  const auto slow = std::ranges::max_element(ranks, {}, &Heartbeat::own_seconds);
  if (slow == ranks.end()) return {};
  const double factor = slow->own_seconds() / median_without(ranks, slow->rank);
  if (!(factor > slow_factor)) return {};
  const auto part = static_cast<size_t>(std::ranges::max_element(slow->parts) - slow->parts.begin());
  return Straggler{slow->rank, factor,
                   fmt::format("rank {} on {} is slow: {:.3g} s of a step are its own, {:.1f} times the median of the "
                               "other ranks, most of it in '{}' ({:.3g} s)",
                               slow->rank, slow->host, slow->own_seconds(), factor, timed_activities[part]->name,
                               slow->parts[part])};
}

std::optional<std::string> StragglerWatch::look(double now, const std::vector<Heartbeat>& ranks) {
  if (sums_.empty()) since_ = now;
  for (const Heartbeat& of : ranks) {
    if (of.own_seconds() <= 0) continue;  // it has not done a whole step yet
    const auto [at, is_new] = sums_.try_emplace(of.rank, Sum{of, 1});
    if (is_new) continue;
    Sum& sum = at->second;
    for (size_t part = 0; part < of.parts.size(); ++part) sum.of.parts[part] += of.parts[part];
    ++sum.looks;
  }
  if (now - since_ < minute) return {};
  const std::optional<Straggler> slow = slowest(means());
  sums_.clear();
  if (!slow || std::ranges::find(named_, slow->rank) != named_.end()) return {};
  named_.push_back(slow->rank);
  return slow->sentence;
}

std::vector<Heartbeat> StragglerWatch::means() const {
  std::vector<Heartbeat> ranks;
  for (const auto& [rank, sum] : sums_) {
    Heartbeat mean = sum.of;
    for (double& part : mean.parts) part /= sum.looks;
    ranks.push_back(mean);
  }
  return ranks;
}

}  // namespace octet
