#include "src/train/weights_file.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <numeric>
#include <string_view>

#include "kernels/base/error.h"

namespace octet {
namespace {

// Beginnings of names since torchvision 0.13, and before it. # stands for a number, which earlier files multiply by
// `factor`: they counted activations too.
struct Alias {
  std::string_view now, before;
  int factor = 1;
};
constexpr Alias aliases[] = {
    {"backbone.fpn.inner_blocks.#.0.", "backbone.fpn.inner_blocks.#."},
    {"backbone.fpn.layer_blocks.#.0.", "backbone.fpn.layer_blocks.#."},
    {"rpn.head.conv.0.0.", "rpn.head.conv."},
    {"head.classification_head.conv.#.0.", "head.classification_head.conv.#.", 2},
    {"head.regression_head.conv.#.0.", "head.regression_head.conv.#.", 2},
};

// The earlier name; empty if the alias is for other names.
std::string earlier(const Alias& alias, std::string_view name) {
  const size_t mark = alias.now.find('#');
  if (mark == std::string_view::npos)
    return name.starts_with(alias.now) ? std::string(alias.before).append(name.substr(alias.now.size())) : "";
  if (!name.starts_with(alias.now.substr(0, mark))) return "";
  int number = 0;
  const char* const end = name.data() + name.size();
  const char* const behind = std::from_chars(name.data() + mark, end, number).ptr;
  const std::string_view rest(behind, size_t(end - behind)), tail = alias.now.substr(mark + 1);
  if (!rest.starts_with(tail)) return "";
  const size_t old_mark = alias.before.find('#');
  return std::string(alias.before.substr(0, old_mark))
      .append(std::to_string(number * alias.factor))
      .append(alias.before.substr(old_mark + 1))
      .append(rest.substr(tail.size()));
}

// Heads with rows for each class. torchvision's detectors for COCO have a class for each of the numbers 0 to 90, of
// which 80 are categories.
constexpr int64_t coco_classes = 91;
struct ClassHead {
  std::string_view layer;
  int64_t values = 1;       // rows of a class
  bool background = false;  // the first class is "no object"
};
constexpr ClassHead class_heads[] = {
    {"head.classification_head.cls_logits."},
    {"roi_heads.box_predictor.cls_score.", 1, true},
    {"roi_heads.box_predictor.bbox_pred.", 4, true},
};

std::string text_of(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text.empty() ? "()" : text;
}

}  // namespace

std::string name_in_backbone(std::string_view name) {
  // The last stage of a ResNet may be the head of the regions, as torchvision would name it there.
  constexpr std::string_view body = "backbone.body.", head = "roi_heads.box_head.";
  if (name.starts_with(body)) return std::string(name.substr(body.size()));
  if (name.starts_with(head) && name.substr(head.size()).starts_with("layer4."))
    return std::string(name.substr(head.size()));
  return {};
}

std::string WeightsFile::name_in_file(const std::string& name) const {
  std::string own = of_ == Of::backbone ? name_in_backbone(name) : name;
  if (file_.contains(own)) return own;
  for (const Alias& alias : aliases)
    if (std::string before = earlier(alias, own); !before.empty() && file_.contains(before)) return before;
  return own;
}

std::vector<float> WeightsFile::read(const std::string& name, const std::vector<int64_t>& shape) {
  const char* const fix = of_ == Of::same_network
                              ? "use weights of the same model: its name, backbone, heads and classes"
                              : "give weights of the classification network that model.backbone names";
  const std::string in_file = name_in_file(name);
  REQUIRE_USAGE(file_.contains(in_file), fix, path_, " has no tensor `", in_file, "`, which the network needs as ",
                text_of(shape));
  std::vector<float> values;
  if (file_.shape(in_file) == shape)
    values.assign(file_.f32(in_file).begin(), file_.f32(in_file).end());
  else
    values = rows_of_classes(name, in_file, shape);
  REQUIRE_USAGE(!values.empty() || shape == file_.shape(in_file), fix, path_, ": tensor `", in_file, "` is ",
                text_of(file_.shape(in_file)), ", in the network it is ", text_of(shape));
  read_.insert(in_file);
  return values;
}

// Rows are ordered by (anchor, class, value). Returns nothing if the tensor is no head of COCO's categories, or differs
// in more than its rows.
std::vector<float> WeightsFile::rows_of_classes(const std::string& name, const std::string& in_file,
                                                const std::vector<int64_t>& shape) const {
  const auto* const head =
      std::ranges::find_if(class_heads, [&](const ClassHead& known) { return name.starts_with(known.layer); });
  const std::vector<int64_t>& whole = file_.shape(in_file);
  if (head == std::end(class_heads) || category_ids_.empty() || whole.size() != shape.size() || shape.empty() ||
      !std::equal(shape.begin() + 1, shape.end(), whole.begin() + 1))
    return {};
  std::vector<int64_t> chosen = category_ids_;
  if (head->background) chosen.insert(chosen.begin(), 0);
  const auto classes = int64_t(chosen.size()), anchors = shape[0] / (classes * head->values);
  if (shape[0] != anchors * classes * head->values || whole[0] != anchors * coco_classes * head->values ||
      std::ranges::any_of(chosen, [](int64_t id) { return id < 0 || id >= coco_classes; }))
    return {};
  const std::span<const float> all = file_.f32(in_file);
  const size_t of_class = all.size() / size_t(anchors * coco_classes);
  std::vector<float> values;
  for (int64_t anchor = 0; anchor < anchors; ++anchor)
    for (const int64_t id : chosen) {
      const auto rows = all.subspan(size_t(anchor * coco_classes + id) * of_class, of_class);
      values.insert(values.end(), rows.begin(), rows.end());
    }
  return values;
}

}  // namespace octet
