// Names that a tensor has in files of other programs.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace octet {

// The other names under which a file may hold the tensor `name` of a network of octet: those of torchvision before
// version 0.13 and of timm. In the order in which they are tried.
std::vector<std::string> other_names(std::string_view name);

}  // namespace octet
