// An HTML page about a run.
#pragma once
#include <string>

namespace octet {

// The page shows curves, clips, gradients and the configuration. It needs no other file.
std::string inspect_page(const std::string& run_directory);

}  // namespace octet
