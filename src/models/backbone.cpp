#include "src/models/backbone.h"

#include <algorithm>

namespace octet {
namespace {

// To add a backbone, declare the function that appends its stages in backbone.h, and add a row below.
struct Row {
  const char* name;
  BackboneStages* stages;
  size_t form = 0;        // for large images
  float epsilon = 1e-5f;  // of the published network
};
constexpr Row rows[] = {{"resnet18", resnet_stages},
                        {"resnet34", resnet_stages},
                        {"resnet50", resnet_stages},
                        {"resnet101", resnet_stages},
                        {"mobilenet_v2", mobilenet_v2_stages, 1},
                        {"efficientnet_lite0", efficientnet_lite0_stages, 1, 1e-3f}};

const Row& row_of(const Config::Model& model) {
  const Row* const row = std::ranges::find(rows, model.backbone, &Row::name);
  REQUIRE_USAGE(row != std::end(rows), "use one of: " + joined(backbone_names(), ", "), "model.backbone `",
                model.backbone, "` is not known");
  return *row;
}

}  // namespace

Edge BackboneLayers::conv(const std::string& name, const std::string& norm, Edge x, ConvOptions options) const {
  options.norm = prefix + norm;
  options.epsilon = epsilon;
  options.frozen = stage < frozen_stages;
  options.frozen_norm = frozen_norms;
  return octet::conv(graph, prefix + name, x, options);
}

BackboneLayers backbone_layers(Graph& graph, const Config::Model& model, const std::string& prefix) {
  return {.graph = graph,
          .prefix = prefix,
          .frozen_norms = model.norm == "frozen",
          .epsilon = model.norm_epsilon < 0 ? row_of(model).epsilon : float(model.norm_epsilon),
          .frozen_stages = model.freeze_stages};
}

std::vector<Edge> make_backbone(Graph& graph, Edge images, const Config::Model& model, const std::string& prefix,
                                int count) {
  const Row& row = row_of(model);
  return row.stages(backbone_layers(graph, model, prefix), images, row.name, row.form, count);
}

std::vector<std::string> backbone_names() {
  std::vector<std::string> names;
  for (const Row& row : rows) names.emplace_back(row.name);
  return names;
}

}  // namespace octet
