// Ranges of activations in files of weights. They belong to the policy, not to the network: a program that loads a file
// into the network, as PyTorch's load_state_dict(strict=True) does, refuses tensors that the network lacks. So they are
// in the file's metadata.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/weights/safetensors.h"

namespace octet {

// Whether a tensor is the range of an activation, by its name: `layer1.0.conv1.range`.
bool is_range(std::string_view tensor);
// Puts the ranges among the tensors into the entry `activation_ranges`, a JSON object of names and hexadecimal floats
// ("0x1.8p+1"). Returns the others. Without ranges there is no entry.
std::vector<NamedTensor> move_ranges(std::span<const NamedTensor> tensors,
                                     std::map<std::string, std::string>& metadata);
// What move_ranges() has put there, bit for bit; empty for files without it. UsageError: octet did not write it, or a
// range is not finite.
std::vector<std::pair<std::string, float>> read_ranges(const SafetensorsFile&, const std::string& path);

}  // namespace octet
