#include "src/models/models.h"

#include <algorithm>
#include <iterator>

#include "src/models/detectors.h"

namespace octet {

// To add a network, write its file, declare its function here, and add a row below.
using Build = std::vector<Head>(Graph&, Edge images, const Config::Model&);
Build resnet20, resnet, mobilenet_v2, alexnet, inception_v3, vgg7, efficientnet_lite0;

namespace {

// From -1 to 1. torchvision's InceptionV3 turns pixels that are normalized as photographs into these
// (`transform_input`); timm gives the numbers themselves.
constexpr Normalization from_minus_1_to_1 = {{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}};
// (pixel - 127) / 128, as the authors of EfficientNet-Lite compute it.
constexpr Normalization of_efficientnet_lite = {{127.0f / 255, 127.0f / 255, 127.0f / 255},
                                                {128.0f / 255, 128.0f / 255, 128.0f / 255}};

struct Row {
  const char* name;
  Build* build;
  const Normalization* published = nullptr;  // see published_normalization()
};
constexpr Row rows[] = {{"resnet20", resnet20},
                        {"resnet18", resnet, &of_photographs},
                        {"resnet34", resnet, &of_photographs},
                        {"resnet50", resnet, &of_photographs},
                        {"resnet101", resnet, &of_photographs},
                        {"mobilenet_v2", mobilenet_v2, &of_photographs},
                        {"alexnet", alexnet, &of_photographs},
                        {"alexnet_bn", alexnet},
                        {"inception_v3", inception_v3, &from_minus_1_to_1},
                        {"vgg7", vgg7},
                        {"efficientnet_lite0", efficientnet_lite0, &of_efficientnet_lite}};

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Row& row : rows) names.emplace_back(row.name);
  std::ranges::copy(detector_names(), std::back_inserter(names));
  return names;
}

const Normalization* published_normalization(const Config::Model& model) {
  const Row* const row = std::ranges::find(rows, is_detector(model.name) ? model.backbone : model.name, &Row::name);
  return row == std::end(rows) ? nullptr : row->published;
}

std::vector<Head> make_model(Graph& graph, Edge images, const Config::Model& model) {
  const Row* const row = std::ranges::find(rows, model.name, &Row::name);
  REQUIRE_USAGE(row != std::end(rows), "use one of: " + joined(model_names(), ", "), "model.name `", model.name,
                "` is not known");
  REQUIRE_USAGE(model.classes > 1, "set model.classes to the number of classes", "model.classes is ", model.classes,
                ", but ", model.name, " tells two classes or more apart");
  return row->build(graph, images, model);
}

}  // namespace octet
