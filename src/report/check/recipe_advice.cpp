#include "src/report/check/recipe_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "kernels/base/error.h"
#include "src/models/backbone.h"
#include "src/models/models.h"
#include "src/quant/policy.h"
#include "src/train/memory_need.h"
#include "src/train/needed_pixels.h"
#include "src/train/network_form.h"
#include "src/weights/class_names.h"
#include "src/weights/recipe.h"
#include "src/weights/tensor_names.h"
#include "src/weights/weights_file.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

constexpr int64_t few_images = 200;                                      // of a class
constexpr int64_t steps_of_epoch = 10;                                   // at least
constexpr int64_t seen_in_scratch = 1'000'000, seen_in_tuning = 30'000;  // images of a training, over all epochs

// Networks by a tensor that only they have, the larger ones of a family first, and the stage up to which a small data
// set leaves pretrained layers as they are. Without a tensor: nobody but octet trains them, and its files name them.
struct Known {
  const char *network, *freeze, *tensor = nullptr;
};
constexpr Known known_networks[] = {
    {"efficientnet_lite0", "_blocks.5", "_blocks.14._project_conv.weight"},
    {"mobilenet_v2", "features.7", "features.18.0.weight"},
    {"inception_v3", "Mixed_5d", "Mixed_7c.branch1x1.conv.weight"},
    {"resnet101", "layer2", "layer3.22.conv3.weight"},
    {"resnet50", "layer2", "layer3.5.conv3.weight"},
    {"resnet34", "layer2", "layer3.5.conv2.weight"},
    {"resnet18", "layer2", "layer4.1.conv2.weight"},
    {"alexnet", "features.6", "features.10.weight"},
    {"alexnet_bn", "features.8"},
    {"resnet20", "layer1"},
    {"vgg7", "features.4"},
};

const Known& network_of(const SafetensorsFile& file, const std::string& path) {
  std::vector<std::string> all;
  for (const Known& known : known_networks) all.emplace_back(known.network);
  const std::string fix = "give weights of one of " + joined(all, ", ");
  if (const std::optional<Config> recipe = find_recipe(file, path)) {
    const Known* const known = std::ranges::find(known_networks, recipe->model.name, &Known::network);
    REQUIRE_USAGE(known != std::end(known_networks), fix, path, " is of ", recipe->model.name,
                  ", which is no classifier");
    return *known;
  }
  std::vector<std::string> names = file.names();
  for (std::string& name : names) name = without_wrappers(name);
  for (const Known& known : known_networks)
    if (known.tensor != nullptr && !beginnings(names, {known.tensor}).empty()) return known;
  REQUIRE_USAGE(false, fix, path, " does not name its network, and has the tensors of none that octet knows");
  return known_networks[0];
}

// The smallest usual side that keeps the images' detail, and that the network takes.
int64_t usual_side(const std::string& network, int64_t side, int64_t least) {
  constexpr std::array<int64_t, 5> sides = {32, 64, 96, 128, 224};
  for (const int64_t usual : sides)
    if (usual >= least && 10 * side <= 11 * usual && form_of(network, usual)) return usual;
  return sides.back();
}

class Advisor : private Choices {
 public:
  Advisor(const FolderFacts& facts, const std::string& weights) : facts_(facts), weights_(weights) {
    if (weights.empty()) return;
    const SafetensorsFile file = open_weights(weights);
    known_ = &network_of(file, weights);
    trained_side_ = trained_side(file, weights);
    same_classes_ = !facts.names.empty() && read_classes(file, weights).names == facts.names;
  }

  std::vector<Choice> choices(int64_t memory, int cores) {
    model();
    data(cores);
    batch(memory, cores);
    training();
    return take();
  }

 private:
  void model() {
    const std::string own = usual_side("resnet20", facts_.side, 32) <= 32 ? "resnet20" : "resnet18";
    const std::string network = known_ ? known_->network : own;
    side_ = trained_side_.value_or(usual_side(network, facts_.side, known_ ? 96 : 32));
    add("model.name", network,
        known_        ? "the network of the weights"
        : side_ <= 32 ? "made for images of 32 pixels"
                      : "a usual network that trains from random weights");
    add("model.classes", fmt::to_string(facts_.classes), "the folders of classes");
    if (!known_) return;
    add("model.initial_weights", fs::absolute(weights_).string(), "what the network has learned elsewhere");
    add("model.head", same_classes_ ? "keep" : "new",
        same_classes_ ? "the weights know your classes" : "your classes are not those of the weights");
  }

  void data(int cores) {
    add("data.name", "image_folder", "folders are classes");
    add("data.root", fs::absolute(facts_.root).string(),
        fmt::format("{} images{}{}", facts_.train + facts_.test, facts_.splits.empty() ? "" : " in ", facts_.splits));
    add("data.image_size", fmt::to_string(side_),
        trained_side_ ? "the weights were trained on images of this size"
                      : fmt::format("the shorter sides have a median of {} pixels", facts_.side));
    if (known_) add_pixels(weights_, known_->network);
    if (facts_.divided)
      add("data.holdout", fmt::format("{}", kept_share), "there is no folder val/: these images judge the network");
    if (!facts_.bad.empty())
      add("data.bad_images", "skip",
          fmt::format("{} of {} images cannot be read; `octet check` lists them, and `stop` refuses them",
                      facts_.bad.size(), facts_.examined));
    add("data.workers", fmt::to_string(cores), "threads that decode images, one for each core");
  }

  bool freezes() const { return known_ && facts_.smallest_class < few_images; }

  void batch(int64_t memory, int cores) {
    int64_t size = side_ >= 128 ? 64 : 128;
    while (size > 4 && facts_.train / size < steps_of_epoch) size /= 2;
    while (size > 1 && facts_.train < size) size /= 2;
    const bool small = size < (side_ >= 128 ? 64 : 128);
    Config config = this->config();
    config.data.batch = size;
    if (freezes()) config.train.freeze = known_->freeze;
    const HostMemory host = host_memory(config, cores);
    const auto needed = [&] { return memory_needed(config, 1, host).total(); };
    bool limited = false;
    while (size > 4 && needed() > memory) config.data.batch = size /= 2, limited = true;
    batch_ = size;
    add("data.batch", fmt::to_string(size),
        limited ? fmt::format("{:.0f} MB of memory: more does not fit into half of the free memory, {:.0f} MB",
                              double(needed()) / 1e6, double(memory) / 1e6)
                : fmt::format("{:.0f} MB of memory{}", double(needed()) / 1e6,
                              small ? fmt::format(", and {} steps in an epoch", facts_.train / size) : ""));
  }

  void training() {
    if (freezes())
      add("train.freeze", known_->freeze,
          fmt::format("a class has {} images: too few to change early layers", facts_.smallest_class));
    const int64_t seen = known_ ? seen_in_tuning : seen_in_scratch;
    const int64_t epochs = std::clamp<int64_t>(seen / facts_.train, known_ ? 5 : 15, known_ ? 30 : 150);
    add("train.epochs", fmt::to_string(epochs),
        fmt::format("{} steps {}", epochs * (facts_.train / batch_),
                    known_ ? "from trained weights" : "from random weights"));
    add("train.lr", fmt::format("{:.4g}", known_ ? 0.02 * double(batch_) / 64 : 0.1 * double(batch_) / 128),
        "usual for this batch");
    add("train.schedule", "cosine", "falls to 0 at the end");
    add("train.warmup_epochs", "1", "new layers begin with small steps");
  }

  const FolderFacts& facts_;
  const std::string& weights_;
  const Known* known_ = nullptr;
  std::optional<int64_t> trained_side_;  // of the weights
  bool same_classes_ = false;            // as those of the weights, in their order
  int64_t side_ = 0, batch_ = 0;
};

}  // namespace

void Choices::add(std::string key, std::string value, std::string reason) {
  all_.push_back({std::move(key), std::move(value), std::move(reason)});
}
void Choices::add_pixels(const std::string& weights, const std::string& network) {
  Config::Model model;
  model.name = network;
  const std::optional<NeededPixels> pixels = needed_pixels(open_weights(weights), weights, model);
  if (!pixels) return;
  add("data.mean", list_text(pixels->normalization.mean), "as the weights need it, says " + pixels->source);
  add("data.deviation", list_text(pixels->normalization.deviation), "of pixel / 255, for red, green and blue");
}
Config Choices::config() const { return parse_config(recipe_text(all_, ""), "the new recipe", {}); }

std::vector<Choice> choose_recipe(const FolderFacts& facts, const std::string& weights, int64_t memory, int cores) {
  return Advisor(facts, weights).choices(memory, cores);
}

std::string backbone_of(const std::string& weights) {
  const std::string network = network_of(open_weights(weights), weights).network;
  const std::vector<std::string> backbones = backbone_names();
  REQUIRE_USAGE(std::ranges::count(backbones, network) > 0, "give weights of one of " + joined(backbones, ", "),
                weights, " is of ", network, ", which is no backbone of a detector");
  return network;
}

std::string recipe_text(const std::vector<Choice>& choices, const std::string& title) {
  std::string text = title.empty() ? "" : "# " + title + "\n";
  std::string section;
  for (const Choice& choice : choices) {
    const size_t dot = choice.key.find('.');
    if (const std::string own = choice.key.substr(0, dot); own != section) text += own + ":\n", section = own;
    const bool list = choice.value.starts_with('[');  // of numbers
    const bool plain =
        list || choice.value.find_first_not_of("0123456789.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/-") ==
                    std::string::npos;
    std::string value = choice.value;
    if (!plain) {
      for (size_t at = 0; (at = value.find('\'', at)) != std::string::npos; at += 2) value.insert(at, "'");
      value = "'" + value + "'";
    }
    text += fmt::format("  {}: {}  # {}\n", choice.key.substr(dot + 1), value, choice.reason);
  }
  return text;
}

}  // namespace octet
