// The metrics of a training step or of an evaluation.
#pragma once
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

}  // namespace octet
