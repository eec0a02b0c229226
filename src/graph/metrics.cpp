#include "src/graph/metrics.h"

#include "kernels/base/error.h"

namespace octet {

void add(Metrics& sums, const Metrics& more) {
  if (sums.empty()) {
    sums = more;
    return;
  }
  REQUIRE(sums.size() == more.size(), "this is a defect of octet: please report it", sums.size(), " metrics and ",
          more.size(), " are to be added");
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i].sum += more[i].sum;
    sums[i].count += more[i].count;
  }
}

std::vector<double> as_numbers(const Metrics& metrics) {
  std::vector<double> numbers;
  for (const Metric& metric : metrics) numbers.insert(numbers.end(), {metric.sum, metric.count});
  return numbers;
}

Metrics with_numbers(Metrics metrics, std::span<const double> numbers) {
  for (size_t i = 0; i < metrics.size(); ++i) {
    metrics[i].sum = numbers[2 * i];
    metrics[i].count = numbers[2 * i + 1];
  }
  return metrics;
}

Scalars means_of(const Metrics& metrics) {
  Scalars means;
  for (const Metric& metric : metrics) means.push_back({metric.name, metric.count > 0 ? metric.sum / metric.count : 0});
  return means;
}

}  // namespace octet
