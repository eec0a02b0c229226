// The metrics of a training step or of an evaluation.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace octet {

// A sum and a count, which can be added over batches and ranks.
struct Metric {
  std::string name;
  double sum = 0, count = 0;
};
using Metrics = std::vector<Metric>;

// A mean or another single number.
struct Scalar {
  std::string name;
  double value = 0;
};
using Scalars = std::vector<Scalar>;

// sums += more. Both have the same metrics in the same order; empty sums become `more`.
void add(Metrics& sums, const Metrics& more);
// The sum and the count of each metric, one after the other, as ranks add them.
std::vector<double> as_numbers(const Metrics&);
// The metrics with the sums and counts that the ranks added.
Metrics with_numbers(Metrics, std::span<const double>);
// The mean of each metric; 0 where nothing was counted.
Scalars means_of(const Metrics&);

}  // namespace octet
