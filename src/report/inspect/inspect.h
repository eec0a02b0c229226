// An HTML page about a run.
#pragma once
#include <string>
#include <vector>

namespace octet {

// The page shows curves, classes, clips, gradients and the configuration. It needs no other file. overrides: of the
// run's configuration, "key=value", such as the place of its data now. UsageError: the directory holds no run, or one
// of its files is damaged.
std::string inspect_page(const std::string& run_directory, const std::vector<std::string>& overrides = {});

// Runs side by side: final figures, what differs in their recipes, and a chart of each metric with a curve for each
// run. Errors as inspect_page().
std::string comparison_page(const std::vector<std::string>& run_directories);

}  // namespace octet
