// What `octet bench` runs besides the steps of a training.
#pragma once
#include <string>
#include <vector>

namespace octet {

// Times each hot kernel at the sizes of real layers. filter: a regular expression on their names; overrides: key=value,
// for backend.device, backend.isa and backend.threads. Returns the exit code of the process.
int bench_kernels(const std::string& filter, bool json, const std::vector<std::string>& overrides);

// Replaces this process by bench/peers/compare.py, which times octet beside PyTorch. arguments: its options and
// networks.
int bench_peer(const std::vector<std::string>& arguments);

}  // namespace octet
