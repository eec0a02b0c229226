#include "src/weights/tensor_names.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>
#include <span>

#include "kernels/base/text.h"

namespace octet {
namespace {

// Beginnings of names in octet, which are torchvision's since version 0.13, and elsewhere. # stands for a number, which
// the other file multiplies by `factor`.
struct Alias {
  std::string_view now, other;
  int factor = 1;
};
// torchvision before version 0.13, which counted activations too.
constexpr Alias earlier_torchvision[] = {
    {"backbone.fpn.inner_blocks.#.0.", "backbone.fpn.inner_blocks.#."},
    {"backbone.fpn.layer_blocks.#.0.", "backbone.fpn.layer_blocks.#."},
    {"rpn.head.conv.0.0.", "rpn.head.conv."},
    {"head.classification_head.conv.#.0.", "head.classification_head.conv.#.", 2},
    {"head.regression_head.conv.#.0.", "head.regression_head.conv.#.", 2},
};
// timm numbers the blocks of a network within stages.
struct TimmNetwork {
  std::span<const Alias> layers;              // outside of blocks, and of the first block
  std::string_view blocks;                    // how octet names these, with their number behind it
  int first = 0;                              // the number of the first of `numbers`
  std::span<const std::string_view> numbers;  // in timm
  std::span<const Alias> of_block;
};
constexpr Alias mobilenet_v2_layers[] = {
    {"features.0.0.", "conv_stem."},
    {"features.0.1.", "bn1."},
    {"features.1.conv.0.0.", "blocks.0.0.conv_dw."},
    {"features.1.conv.0.1.", "blocks.0.0.bn1."},
    {"features.1.conv.1.", "blocks.0.0.conv_pw."},
    {"features.1.conv.2.", "blocks.0.0.bn2."},
    {"features.18.0.", "conv_head."},
    {"features.18.1.", "bn2."},
    {"classifier.1.", "classifier."},
};
constexpr std::string_view mobilenet_v2_blocks[] = {"1.0", "1.1", "2.0", "2.1", "2.2", "3.0", "3.1", "3.2",
                                                    "3.3", "4.0", "4.1", "4.2", "5.0", "5.1", "5.2", "6.0"};
constexpr Alias mobilenet_v2_block[] = {
    {"conv.0.0.", "conv_pw."}, {"conv.0.1.", "bn1."},    {"conv.1.0.", "conv_dw."},
    {"conv.1.1.", "bn2."},     {"conv.2.", "conv_pwl."}, {"conv.3.", "bn3."},
};
constexpr Alias efficientnet_lite0_layers[] = {
    {"_conv_stem.", "conv_stem."},
    {"_bn0.", "bn1."},
    {"_blocks.0._depthwise_conv.", "blocks.0.0.conv_dw."},
    {"_blocks.0._bn1.", "blocks.0.0.bn1."},
    {"_blocks.0._project_conv.", "blocks.0.0.conv_pw."},
    {"_blocks.0._bn2.", "blocks.0.0.bn2."},
    {"_conv_head.", "conv_head."},
    {"_bn1.", "bn2."},
    {"_fc.", "classifier."},
};
constexpr std::string_view efficientnet_lite0_blocks[] = {"1.0", "1.1", "2.0", "2.1", "3.0", "3.1", "3.2", "4.0",
                                                          "4.1", "4.2", "5.0", "5.1", "5.2", "5.3", "6.0"};
constexpr Alias efficientnet_lite0_block[] = {
    {"_expand_conv.", "conv_pw."},   {"_bn0.", "bn1."}, {"_depthwise_conv.", "conv_dw."}, {"_bn1.", "bn2."},
    {"_project_conv.", "conv_pwl."}, {"_bn2.", "bn3."},
};
// mobilenetv2_100 and tf_efficientnet_lite0
constexpr TimmNetwork timm_networks[] = {
    {mobilenet_v2_layers, "features.", 2, mobilenet_v2_blocks, mobilenet_v2_block},
    {efficientnet_lite0_layers, "_blocks.", 1, efficientnet_lite0_blocks, efficientnet_lite0_block},
};

// Parts that PyTorch adds to names.
constexpr std::string_view wrappers[] = {"module.", "_orig_mod.", "_fsdp_wrapped_module.",
                                         "_checkpoint_wrapped_module."};

// The other name; empty if the alias is for other names.
std::string renamed(const Alias& alias, std::string_view name) {
  const size_t mark = alias.now.find('#');
  if (mark == std::string_view::npos)
    return name.starts_with(alias.now) ? std::string(alias.other).append(name.substr(alias.now.size())) : "";
  if (!name.starts_with(alias.now.substr(0, mark))) return "";
  int number = 0;
  const char* const end = name.data() + name.size();
  const char* const behind = std::from_chars(name.data() + mark, end, number).ptr;
  const std::string_view rest(behind, size_t(end - behind)), tail = alias.now.substr(mark + 1);
  if (!rest.starts_with(tail)) return "";
  const size_t other_mark = alias.other.find('#');
  return std::string(alias.other.substr(0, other_mark))
      .append(std::to_string(number * alias.factor))
      .append(alias.other.substr(other_mark + 1))
      .append(rest.substr(tail.size()));
}

// timm's name of a tensor; empty if the tensor is of none of the networks.
std::string in_timm(std::string_view name) {
  for (const TimmNetwork& network : timm_networks) {
    for (const Alias& alias : network.layers)
      if (std::string other = renamed(alias, name); !other.empty()) return other;
    for (size_t i = 0; i < network.numbers.size(); ++i) {
      const std::string now = say(network.blocks, network.first + int(i), ".");
      if (!name.starts_with(now)) continue;
      const std::string_view inner = name.substr(now.size());
      for (const Alias& layer : network.of_block)
        if (const std::string own = renamed(layer, inner); !own.empty())
          return say("blocks.", network.numbers[i], ".", own);
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> other_names(std::string_view name) {
  std::vector<std::string> names;
  for (const Alias& alias : earlier_torchvision)
    if (std::string before = renamed(alias, name); !before.empty()) names.push_back(std::move(before));
  if (std::string own = in_timm(name); !own.empty()) names.push_back(std::move(own));
  return names;
}

bool begins_with_wrapper(std::string_view name) {
  return std::ranges::any_of(wrappers, [&](std::string_view wrapper) { return name.starts_with(wrapper); });
}

std::string without_wrappers(std::string_view name) {
  std::string rest;
  while (!name.empty()) {
    const std::string_view part = name.substr(0, std::min(name.find('.'), name.size() - 1) + 1);
    if (std::ranges::count(wrappers, part) == 0) rest += part;
    name.remove_prefix(part.size());
  }
  return rest;
}

std::map<std::string, size_t> beginnings(const std::vector<std::string>& names,
                                         const std::vector<std::string>& wanted) {
  std::map<std::string, size_t> counts;
  for (const std::string& tensor : wanted) {
    std::vector<std::string> known = other_names(tensor);
    known.push_back(tensor);
    std::set<std::string> found;  // each beginning once, whatever the number of names
    for (const std::string& name : names)
      for (const std::string& end : known)
        if (name.ends_with(end) && (name.size() == end.size() || name[name.size() - end.size() - 1] == '.'))
          found.insert(name.substr(0, name.size() - end.size()));
    for (const std::string& beginning : found) ++counts[beginning];
  }
  return counts;
}

}  // namespace octet
