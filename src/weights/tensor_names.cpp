#include "src/weights/tensor_names.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>

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
// timm's mobilenetv2_100, without the blocks features.2 to features.17.
constexpr Alias timm_mobilenet_v2[] = {
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
// These blocks, which timm numbers within stages, and the layers of each.
constexpr std::string_view timm_blocks[] = {"1.0", "1.1", "2.0", "2.1", "2.2", "3.0", "3.1", "3.2",
                                            "3.3", "4.0", "4.1", "4.2", "5.0", "5.1", "5.2", "6.0"};
constexpr Alias timm_inverted_residual[] = {
    {"conv.0.0.", "conv_pw."}, {"conv.0.1.", "bn1."},    {"conv.1.0.", "conv_dw."},
    {"conv.1.1.", "bn2."},     {"conv.2.", "conv_pwl."}, {"conv.3.", "bn3."},
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

// timm's name of a tensor of MobileNetV2; empty if the name is none.
std::string in_timm(std::string_view name) {
  for (const Alias& alias : timm_mobilenet_v2)
    if (std::string other = renamed(alias, name); !other.empty()) return other;
  for (size_t i = 0; i < std::size(timm_blocks); ++i) {
    const std::string now = say("features.", i + 2, "."), other = say("blocks.", timm_blocks[i], ".");
    if (!name.starts_with(now)) continue;
    const std::string_view inner = name.substr(now.size());
    for (const Alias& layer : timm_inverted_residual)
      if (const std::string own = renamed(layer, inner); !own.empty()) return other + own;
    return other + std::string(inner);
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
