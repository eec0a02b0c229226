// What an inspection page shows of a detector.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "src/run/result.h"

namespace octet {

// Average precision by class, curves of precision over recall, and images of the test set with what the network found
// on them at the last evaluation. Empty for other runs. Curves and images need the data at the place where the run
// found them; without it a sentence says what is missing.
std::string detection_sections(const std::string& run_directory, const std::optional<Result>&,
                               const std::vector<std::string>& overrides);

}  // namespace octet
