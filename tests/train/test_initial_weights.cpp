// Weights of other networks and of other versions of torchvision: what is found, under which name, and which rows.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "src/train/training_state.h"
#include "src/weights/tensor_names.h"
#include "tests/graph/harness.h"
#include "tests/train/temporary_directory.h"

namespace octet {
namespace {

// Tensors by name, with shapes.
struct Stored {
  std::vector<int64_t> shape;
  std::vector<float> values;
  bool operator==(const Stored&) const = default;
};
using StoredTensors = std::map<std::string, Stored>;

void write_stored(const std::string& path, const StoredTensors& tensors) {
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : tensors) named.push_back({name, tensor.shape, tensor.values});
  write_safetensors(path, named, {});
}

Config small_network(const std::string& name) {
  Config config;
  const size_t on = name.find(" on ");  // a detector on a backbone
  config.model.name = name.substr(0, on);
  config.model.classes = 3;
  if (config.model.name != "retinanet") return config;
  config.model.backbone = on == name.npos ? "resnet18" : name.substr(on + 4);
  config.model.neck_channels = 8;
  config.model.head_depth = 2;
  return config;
}

class InitialWeights : public ::testing::Test {
 protected:
  static std::unique_ptr<Harness> network(const std::string& name, int64_t seed = 1) {
    Config config = small_network(name);
    config.seed = seed;
    return std::make_unique<Harness>(config, make_cpu_backend({best_isa(), 1}), 1, 64, PlanOptions{});
  }
  static StoredTensors stored(Harness& of) {
    const OwnedTensors saved = TrainingState(*of.step).save(true);
    StoredTensors tensors;
    for (const NamedTensor& tensor : saved.tensors)
      if (!tensor.name.ends_with(".range"))
        tensors[tensor.name] = {tensor.shape, {tensor.values.begin(), tensor.values.end()}};
    return tensors;
  }
  LoadedWeights load(Harness& into, const StoredTensors& tensors, std::vector<int64_t> category_ids = {},
                     bool new_head = false) {
    write_stored(path, tensors);
    return TrainingState(*into.step, std::move(category_ids))
        .load(SafetensorsFile::open(path), path, {.new_head = new_head});
  }
  LoadedWeights load_backbone(Harness& into, const StoredTensors& tensors) {
    write_stored(path, tensors);
    return TrainingState(*into.step).load_backbone(SafetensorsFile::open(path), path);
  }

  TemporaryDirectory directory;
  const std::string path = directory / "weights.safetensors";
};

TEST_F(InitialWeights, BackboneIsAClassificationNetwork) {
  const auto classifier = network("resnet18", 5), detector = network("retinanet");
  const StoredTensors before = stored(*detector);
  StoredTensors file = stored(*classifier);
  file["layer1.0.conv1.range"] = {{1}, {7}};
  file["bn1.num_batches_tracked"] = {{}, {1}};
  const LoadedWeights loaded = load_backbone(*detector, file);
  EXPECT_EQ(loaded.loaded, 20u * 5);
  EXPECT_EQ(loaded.unused.size(), 4u);  // fc.weight, fc.bias, a range, a counter
  size_t of_backbone = 0;
  for (const auto& [name, tensor] : stored(*detector)) {
    const bool loads = name.starts_with("backbone.body.");
    EXPECT_EQ(tensor, loads ? file.at(name.substr(14)) : before.at(name)) << name;
    of_backbone += loads;
  }
  EXPECT_EQ(of_backbone, loaded.loaded);
  EXPECT_EQ(loaded.fresh.size(), before.size() - of_backbone);
}

TEST_F(InitialWeights, BackboneMustBeWhole) {
  const auto classifier = network("resnet18"), detector = network("retinanet");
  StoredTensors file = stored(*classifier);
  file["layer2.0.conv1.weight"] = {{128, 64, 1, 1}, std::vector<float>(128 * 64)};
  EXPECT_PART(refusal([&] { load_backbone(*detector, file); }),
              "tensor `layer2.0.conv1.weight` is 128x64x1x1, in the network it is 128x64x3x3");
  file.erase("layer2.0.conv1.weight");
  EXPECT_PART(refusal([&] { load_backbone(*detector, file); }),
              "has no tensor `layer2.0.conv1.weight`, which the network needs as 128x64x3x3");
  EXPECT_PART(refusal([&] { load_backbone(*classifier, file); }), "has no backbone");
}

// Before torchvision 0.13 a convolution of a head had no name of its own.
TEST_F(InitialWeights, NamesOfEarlierTorchvisionAreKnown) {
  const std::map<std::string, std::string> earlier = {
      {"backbone.fpn.inner_blocks.2.0.weight", "backbone.fpn.inner_blocks.2.weight"},
      {"backbone.fpn.layer_blocks.0.0.bias", "backbone.fpn.layer_blocks.0.bias"},
      {"head.classification_head.conv.0.0.weight", "head.classification_head.conv.0.weight"},
      {"head.classification_head.conv.1.0.bias", "head.classification_head.conv.2.bias"},
      {"head.regression_head.conv.1.0.weight", "head.regression_head.conv.2.weight"}};
  const auto source = network("retinanet", 5), detector = network("retinanet");
  StoredTensors file = stored(*source);
  for (const auto& [now, before] : earlier) {
    ASSERT_TRUE(file.contains(now)) << now;
    auto tensor = file.extract(now);
    tensor.key() = before;
    file.insert(std::move(tensor));
  }
  EXPECT_TRUE(load(*detector, file).unused.empty());
  EXPECT_EQ(stored(*detector), stored(*source));
}

TEST_F(InitialWeights, OlderNameOfTheProposalHeadIsKnown) {
  write_stored(path, {{"rpn.head.conv.weight", {{1}, {3}}}});
  const SafetensorsFile file = SafetensorsFile::open(path);
  WeightsFile weights(file, path, WeightsFile::Of::same_network);
  EXPECT_TRUE(weights.contains("rpn.head.conv.0.0.weight"));
  EXPECT_FALSE(weights.contains("rpn.head.conv.0.0.bias"));
  EXPECT_EQ(weights.read("rpn.head.conv.0.0.weight", {1}), (std::vector<float>{3}));
}

// Rows (anchor, class, value); each row holds its class.
Stored rows_of_91(int64_t anchors, int64_t values) {
  Stored rows{{anchors * 91 * values, 2}, {}};
  for (int64_t row = 0; row < rows.shape[0]; ++row) {
    const int64_t of_anchor = row / values % 91, anchor = row / values / 91;
    for (int i = 0; i < 2; ++i) rows.values.push_back(float(of_anchor + 100 * anchor));
  }
  return rows;
}

TEST_F(InitialWeights, HeadsOf91CategoriesGiveTheRowsOfTheData) {
  const std::string dense = "head.classification_head.cls_logits.weight",
                    score = "roi_heads.box_predictor.cls_score.weight",
                    box = "roi_heads.box_predictor.bbox_pred.weight";
  write_stored(path, {{dense, rows_of_91(2, 1)}, {score, rows_of_91(1, 1)}, {box, rows_of_91(1, 4)}});
  const SafetensorsFile file = SafetensorsFile::open(path);
  WeightsFile weights(file, path, WeightsFile::Of::same_network, {2, 90});
  EXPECT_EQ(weights.read(dense, {4, 2}), (std::vector<float>{2, 2, 90, 90, 102, 102, 190, 190}));
  EXPECT_EQ(weights.read(score, {3, 2}), (std::vector<float>{0, 0, 2, 2, 90, 90}));
  const std::vector<float> boxes = weights.read(box, {12, 2});
  for (size_t i = 0; i < boxes.size(); ++i) EXPECT_EQ(boxes[i], i < 8 ? 0.f : i < 16 ? 2.f : 90.f) << i;
  EXPECT_TRUE(weights.finish().unused.empty());
  // Other widths, other numbers of anchors, ids beyond 90 and other layers are mistakes.
  EXPECT_PART(refusal([&] { weights.read(dense, {4, 3}); }), "is 182x2, in the network it is 4x3");
  EXPECT_PART(refusal([&] { weights.read(dense, {6, 2}); }), "is 182x2, in the network it is 6x2");
  EXPECT_PART(refusal([&] {
                WeightsFile(file, path, WeightsFile::Of::same_network, {2, 91}).read(dense, {4, 2});
              }),
              "182x2");
  EXPECT_PART(refusal([&] { WeightsFile(file, path, WeightsFile::Of::same_network).read(dense, {4, 2}); }), "182x2");
}

TEST_F(InitialWeights, DetectorOf91CategoriesIsLoaded) {
  const auto source = network("retinanet", 5), detector = network("retinanet");
  StoredTensors file = stored(*source);
  for (const char* leaf : {"weight", "bias"}) {
    Stored& head = file[std::string("head.classification_head.cls_logits.") + leaf];
    const size_t of_row = head.values.size() / size_t(head.shape[0]);
    Stored wide{head.shape, std::vector<float>(9 * 91 * of_row)};
    wide.shape[0] = 9 * 91;
    const int64_t ids[] = {1, 18, 90};
    for (size_t anchor = 0; anchor < 9; ++anchor)
      for (size_t k = 0; k < 3; ++k)
        std::copy_n(&head.values[(anchor * 3 + k) * of_row], of_row,
                    &wide.values[(anchor * 91 + size_t(ids[k])) * of_row]);
    head = wide;
  }
  load(*detector, file, {1, 18, 90});
  EXPECT_EQ(stored(*detector), stored(*source));
}

// The rows of the old classes are not used, and every other tensor is the file's.
TEST_F(InitialWeights, NewHeadKeepsItsInitialValues) {
  for (const char* const name : {"resnet18", "retinanet"}) {
    const bool detects = std::string(name) == "retinanet";
    const std::string head = detects ? "head.classification_head.cls_logits." : "fc.";
    const auto source = network(name, 5), own = network(name);
    StoredTensors file = stored(*source);
    const StoredTensors before = stored(*own);
    Stored& weight = file[head + "weight"];
    weight.shape[0] *= 2;
    weight.values.resize(weight.values.size() * 2);
    EXPECT_PART(refusal([&] { load(*own, file); }), "set model.head: new");
    const LoadedWeights loaded = load(*own, file, {}, true);
    EXPECT_EQ(loaded.fresh.size(), 2u);
    EXPECT_EQ(loaded.unused.size(), 2u);
    EXPECT_EQ(loaded.loaded, file.size() - 2);
    for (const auto& [tensor, values] : stored(*own))
      EXPECT_EQ(values, tensor.starts_with(head) ? before.at(tensor) : file.at(tensor)) << tensor;
  }
}

// A larger network of the same family has every tensor that a smaller one needs, and more.
TEST_F(InitialWeights, TensorsOfAnotherNetworkAreRefused) {
  const auto larger = network("resnet34", 5), own = network("resnet18");
  EXPECT_PART(refusal([&] { load(*own, stored(*larger)); }),
              "has a tensor `layer1.2.bn1.bias` (64), which the network lacks");
  StoredTensors file = stored(*own);
  file["bn1.num_batches_tracked"] = {{}, {1}};
  EXPECT_EQ(load(*own, file).unused, (std::vector<std::string>{"bn1.num_batches_tracked"}));
}

TEST_F(InitialWeights, NamesOfTimmAndOfWrappersAreKnown) {
  for (const char* const name : {"mobilenet_v2", "efficientnet_lite0"}) {
    const auto source = network(name, 5), own = network(name);
    const StoredTensors file = stored(*source);
    StoredTensors parallel, compiled, timm;
    for (const auto& [tensor, values] : file) {
      parallel["module." + tensor] = values;
      compiled["_orig_mod." + tensor] = values;
      const std::vector<std::string> others = other_names(tensor);
      ASSERT_EQ(others.size(), 1u) << tensor;
      timm[others[0]] = values;
    }
    ASSERT_EQ(timm.size(), file.size());
    for (const char* const tensor :
         {"conv_stem.weight", "bn1.running_var", "blocks.0.0.conv_dw.weight", "blocks.0.0.bn2.bias",
          "blocks.3.2.conv_pwl.weight", "blocks.6.0.bn3.weight", "conv_head.weight", "bn2.bias", "classifier.bias"})
      EXPECT_TRUE(timm.contains(tensor)) << tensor;
    for (const StoredTensors& other : {parallel, compiled, timm}) {
      const auto into = network(name);
      EXPECT_TRUE(load(*into, other).unused.empty());
      EXPECT_EQ(stored(*into), file);
    }
  }
}

// The layers behind the stages are the classifier's alone, under octet's names and under timm's.
TEST_F(InitialWeights, BackbonesTakeTheirClassifiersWeights) {
  for (const std::string name : {"resnet18", "mobilenet_v2", "efficientnet_lite0"}) {
    const StoredTensors file = stored(*network(name, 5));
    StoredTensors timm;
    for (const auto& [tensor, values] : file) {
      const std::vector<std::string> others = other_names(tensor);
      timm[others.empty() ? tensor : others[0]] = values;
    }
    for (const StoredTensors& given : {file, timm}) {
      const auto detector = network("retinanet on " + name);
      const LoadedWeights loaded = load_backbone(*detector, given);
      EXPECT_EQ(loaded.unused.size(), name.starts_with("resnet") ? 2u : 7u) << name;
      EXPECT_EQ(loaded.loaded + loaded.unused.size(), file.size()) << name;
      for (const auto& [tensor, values] : stored(*detector))
        if (const std::string own = name_in_backbone(tensor); !own.empty()) {
          EXPECT_EQ(values, file.at(own)) << tensor;
        }
    }
  }
}

// Beginnings that trainers put in front of every name, beside tensors of their own.
TEST_F(InitialWeights, NetworksAreFoundBehindAnyBeginning) {
  const auto source = network("resnet18", 5), detector = network("retinanet");
  const StoredTensors file = stored(*source);
  for (const std::string beginning :
       {"module.", "_orig_mod.module.", "model.", "ema.", "model_ema.module.", "net.resnet.", "state_dict.backbone."}) {
    StoredTensors wrapped = {{"n_averaged", {{}, {7}}},
                             {"criterion.weight", {{3}, {1, 2, 3}}},
                             {beginning + "bn1.num_batches_tracked", {{}, {1}}}};
    for (const auto& [name, tensor] : file) wrapped[beginning + name] = tensor;
    const auto into = network("resnet18");
    EXPECT_EQ(load(*into, wrapped).unused.size(), 3u) << beginning;
    EXPECT_EQ(stored(*into), file) << beginning;
    EXPECT_EQ(load_backbone(*detector, wrapped).loaded, 100u) << beginning;
  }
}

// Wrappers of a part of the network, as DataParallel around the features of AlexNet.
TEST_F(InitialWeights, WrappersInsideOfNamesAreKnown) {
  const auto source = network("resnet18", 5), into = network("resnet18");
  const StoredTensors file = stored(*source);
  StoredTensors wrapped = {{"n_averaged", {{}, {7}}}};
  for (const auto& [name, tensor] : file) {
    const size_t dot = name.find('.');
    wrapped[name.starts_with("layer") ? name.substr(0, dot) + ".module._orig_mod" + name.substr(dot) : name] = tensor;
  }
  EXPECT_EQ(load(*into, wrapped).unused, (std::vector<std::string>{"n_averaged"}));
  EXPECT_EQ(stored(*into), file);
}

TEST_F(InitialWeights, TwoNetworksInAFileAreRefused) {
  const auto source = network("resnet18", 5), into = network("resnet18");
  StoredTensors both, plain, modules;
  for (const auto& [name, tensor] : stored(*source)) {
    both["model." + name] = both["ema.module." + name] = tensor;
    plain[name] = plain["ema." + name] = tensor;
    modules[name] = modules["module." + name] = tensor;
  }
  EXPECT_PART(refusal([&] { load(*into, both); }), "names begin with `ema.`, with `model.`");
  EXPECT_PART(refusal([&] { load(*into, plain); }), "has a tensor `ema.bn1.bias` (64), which the network lacks");
  EXPECT_PART(refusal([&] { load(*into, modules); }), "holds a tensor twice, as ");
}

// Behind a beginning the rule is that of plain names: no tensor is missing, and none is left.
TEST_F(InitialWeights, AWrappedNetworkMustBeThisOne) {
  const auto larger = network("resnet34", 5), own = network("resnet18");
  StoredTensors wrapped;
  for (const auto& [name, tensor] : stored(*larger)) wrapped["model." + name] = tensor;
  EXPECT_PART(refusal([&] { load(*own, wrapped); }),
              "has a tensor `model.layer1.2.bn1.bias` (64), which the network lacks");
  wrapped.clear();
  for (const auto& [name, tensor] : stored(*own)) wrapped["model." + name] = tensor;
  wrapped.erase("model.conv1.weight");
  EXPECT_PART(refusal([&] { load(*own, wrapped); }), "has no tensor `model.conv1.weight`");
}

TEST_F(InitialWeights, NegativeVarianceIsRefused) {
  const auto own = network("resnet18");
  StoredTensors file = stored(*own);
  file["bn1.running_var"].values[3] = -1;
  EXPECT_PART(refusal([&] { load(*own, file); }), "`bn1.running_var` holds a negative variance");
}

}  // namespace
}  // namespace octet
