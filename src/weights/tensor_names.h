// Names that a tensor has in files of other programs.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace octet {

// The other names under which a file may hold the tensor `name` of a network of octet: those of torchvision before
// version 0.13 and of timm. In the order in which they are tried.
std::vector<std::string> other_names(std::string_view name);

// "features.module.0.weight" -> "features.0.weight": without the parts that PyTorch's wrappers of a network or of its
// layers add to names: DataParallel, torch.compile, fully sharded parameters, recomputed activations.
std::string without_wrappers(std::string_view name);
bool begins_with_wrapper(std::string_view name);  // "module.conv1.weight"

// For each beginning of names, such as "" or "model.", the number of `wanted` tensors that `names` hold behind it,
// under their own or other names.
std::map<std::string, size_t> beginnings(const std::vector<std::string>& names, const std::vector<std::string>& wanted);

}  // namespace octet
