// The curves of a run: losses and other metrics, learning rate and speed.
#pragma once
#include <optional>
#include <string>

#include "src/report/records.h"
#include "src/run/result.h"

namespace octet {

// x is the number of epochs where the run is known to have such, and the number of steps otherwise.
std::string curve_section(const RunRecords&, const std::optional<Result>&);

}  // namespace octet
