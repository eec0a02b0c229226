// Figures of a step or of a test.
#pragma once
#include <string>
#include <vector>

namespace octet {

// Adds over batches and ranks.
struct Metric {
  std::string name;
  double sum = 0, count = 0;
};
using Metrics = std::vector<Metric>;

// A mean, or any other number that is recorded.
struct Scalar {
  std::string name;
  double value = 0;
};
using Scalars = std::vector<Scalar>;

}  // namespace octet
