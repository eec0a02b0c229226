#include "src/weights/weights_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "kernels/base/error.h"
#include "src/config/keys.h"
#include "src/weights/activation_ranges.h"
#include "src/weights/digest.h"
#include "src/weights/tensor_names.h"

namespace octet {
namespace {

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
  return shape.empty() ? "()" : fmt::format("{}", fmt::join(shape, "x"));
}

constexpr const char* of_same_network =
    "use weights of the same model: its name, backbone, heads and classes, for alexnet, alexnet_bn and vgg7 also of "
    "the "
    "same data.image_size; for another number of classes set model.head: new";
constexpr const char* of_backbone = "give weights of the classification network that model.backbone names";
// What classification networks have behind the stages of a backbone, also under timm's names.
constexpr std::string_view behind_stages[] = {"fc.",  "classifier.", "features.18.", "conv_head.",
                                              "bn2.", "_conv_head.", "_bn1.",        "_fc."};

}  // namespace

std::string name_in_backbone(std::string_view name) {
  // The last stage of a ResNet may be the head of the regions, as torchvision would name it there.
  constexpr std::string_view body = "backbone.body.", head = "roi_heads.box_head.";
  if (name.starts_with(body)) return std::string(name.substr(body.size()));
  if (name.starts_with(head) && name.substr(head.size()).starts_with("layer4."))
    return std::string(name.substr(head.size()));
  return {};
}

SafetensorsFile open_weights(const std::string& path) {
  SafetensorsFile file = SafetensorsFile::open(path);
  file.require_finite();
  require_unchanged(file, path);
  return file;
}

void write_weights(const std::string& path, std::span<const NamedTensor> weights,
                   std::map<std::string, std::string> metadata) {
  const std::vector<NamedTensor> tensors = move_ranges(weights, metadata);
  add_digest(tensors, metadata);
  write_safetensors(path, tensors, metadata);
}

std::string LoadedWeights::text() const {
  const auto counted = [](const std::vector<std::string>& names, const char* what) {
    std::string shown;
    for (size_t i = 0; i < std::min(names.size(), size_t{3}); ++i) shown += (i > 0 ? ", " : "") + names[i];
    return names.empty() ? std::string()
                         : say("; ", names.size(), " ", what, " (", shown, names.size() > 3 ? ", ..." : "", ")");
  };
  return say(loaded, " tensors loaded",
             converted > 0 ? say(", ", converted, " of them converted from ",
                                 joined(std::vector(types.begin(), types.end()), " and "))
                           : "",
             counted(fresh, "new"), counted(missing, "missing, which the first step measures"),
             counted(unused, "of the file not used"));
}

WeightsFile::WeightsFile(const SafetensorsFile& file, const std::string& path, Of of, std::vector<int64_t> category_ids)
    : file_(file), path_(path), of_(of), category_ids_(std::move(category_ids)) {
  for (auto& [name, range] : read_ranges(file, path)) ranges_.emplace(name, range);
  for (const std::string& name : file.names()) {
    const auto [known, added] = names_.emplace(without_wrappers(name), name);
    REQUIRE_USAGE(added, "write the tensors of one of them into a file", path, " holds a tensor twice, as `",
                  known->second, "` and as `", name, "`");
  }
}

void WeightsFile::look_for(const std::vector<std::string>& parameters) {
  std::vector<std::string> wanted, names;
  for (const std::string& name : parameters)
    if (std::string own = own_name(name); !own.empty()) wanted.push_back(std::move(own));
  for (const auto& [name, in_file] : names_) names.push_back(name);
  const std::map<std::string, size_t> counts = beginnings(names, wanted);
  std::vector<std::string> whole;  // a layer may have a few names of the network behind its own
  for (const auto& [beginning, count] : counts)
    if (2 * count > wanted.size()) whole.push_back(beginning);
  if (whole.empty() || whole.front().empty()) return;  // the plain names come first
  REQUIRE_USAGE(whole.size() == 1, "write the tensors of one of them into a file", path_,
                " holds the network several times: names begin with `", joined(whole, "`, with `"), "`");
  prefix_ = whole.front();
}

std::string WeightsFile::name_in_file(const std::string& name) const {
  const std::string own = own_name(name);
  std::vector<std::string> known = other_names(own);
  known.insert(known.begin(), own);
  for (const std::string& other : known)
    if (const auto found = names_.find(prefix_ + other); found != names_.end()) return found->second;
  return prefix_ + own;
}

std::vector<float> WeightsFile::read(const std::string& name, const std::vector<int64_t>& shape) {
  const char* const fix = of_ == Of::same_network ? of_same_network : of_backbone;
  const std::string in_file = name_in_file(name);
  if (const auto range = ranges_.find(name); range != ranges_.end() && !file_.contains(in_file)) {
    read_.insert(name);
    return {range->second};
  }
  REQUIRE_USAGE(file_.contains(in_file), fix, path_, " has no tensor `", in_file, "`, which the network needs as ",
                text_of(shape));
  std::vector<float> values =
      file_.shape(in_file) == shape ? file_.floats(in_file) : rows_of_classes(name, in_file, shape);
  REQUIRE_USAGE(!values.empty() || shape == file_.shape(in_file), fix, path_, ": tensor `", in_file, "` is ",
                text_of(file_.shape(in_file)), ", in the network it is ", text_of(shape));
  read_.insert(in_file);
  if (const std::string& type = file_.dtype(in_file); type != "F32") {
    ++report_.converted;
    report_.types.insert(type);
  }
  return values;
}

void WeightsFile::leave(const std::string& name) {
  report_.fresh.push_back(name);
  left_.insert(name_in_file(name));
}

bool WeightsFile::may_be_unused(std::string_view name) const {
  // Counters of PyTorch's norms and of its AveragedModel, ranges of activations of another policy, and what a
  // checkpoint adds to weights.
  if (name.ends_with(".num_batches_tracked") || is_range(name) || name.starts_with("momentum.") ||
      name.starts_with(square_prefix) || name.starts_with(average_prefix) || name == "clips" || name == "n_averaged")
    return true;
  if (name.starts_with("AuxLogits.")) return true;  // InceptionV3 on small images has none
  return of_ == Of::backbone &&
         std::ranges::any_of(behind_stages, [&](std::string_view layer) { return name.starts_with(layer); });
}

LoadedWeights WeightsFile::finish() {
  const bool wrapped = !read_.empty() && std::ranges::all_of(read_, begins_with_wrapper);
  const auto is_beside = [&](const std::string& name, const std::string& in_file) {
    return !name.starts_with(prefix_) || (wrapped && !begins_with_wrapper(in_file));
  };
  for (const auto& [name, in_file] : names_) {
    if (read_.contains(in_file) || read_.contains(average_prefix + in_file)) continue;
    REQUIRE_USAGE(left_.contains(in_file) || is_beside(name, in_file) ||
                      may_be_unused(std::string_view(name).substr(prefix_.size())),
                  of_ == Of::same_network ? of_same_network : of_backbone, path_, " has a tensor `", in_file, "` (",
                  text_of(file_.shape(in_file)), "), which the network lacks");
    report_.unused.push_back(in_file);
  }
  for (const auto& [name, range] : ranges_)
    if (!read_.contains(name)) report_.unused.push_back(name);
  report_.loaded = read_.size();
  return report_;
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
  const std::vector<float> whole_values = file_.floats(in_file);
  const std::span<const float> all = whole_values;
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
