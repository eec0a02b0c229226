#include "src/models/models.h"

#include <algorithm>
#include <iterator>

#include "src/models/detectors.h"

namespace octet {

// To add a network, write its file, declare its function here, and add a row below.
using Build = std::vector<Head>(Graph&, Edge images, const Config::Model&);
Build resnet20, resnet, mobilenet_v2, alexnet, inception_v3, vgg7, efficientnet_lite0;

namespace {

struct Row {
  const char* name;
  Build* build;
};
constexpr Row rows[] = {{"resnet20", resnet20},
                        {"resnet18", resnet},
                        {"resnet34", resnet},
                        {"resnet50", resnet},
                        {"resnet101", resnet},
                        {"mobilenet_v2", mobilenet_v2},
                        {"alexnet", alexnet},
                        {"alexnet_bn", alexnet},
                        {"inception_v3", inception_v3},
                        {"vgg7", vgg7},
                        {"efficientnet_lite0", efficientnet_lite0}};

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Row& row : rows) names.emplace_back(row.name);
  std::ranges::copy(detector_names(), std::back_inserter(names));
  return names;
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
