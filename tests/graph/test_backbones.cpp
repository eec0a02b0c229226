// Networks without their last layers, as detectors use them.
#include "src/models/backbone.h"
#include "tests/graph/harness.h"

namespace octet {
namespace {

Config detector_on(const std::string& backbone, const std::string& name) {
  Config config;
  config.model.name = name;
  config.model.backbone = backbone;
  config.model.classes = 3;
  config.model.finest_stride = 4;
  config.model.neck_channels = 8;
  config.model.head_depth = 1;
  return config;
}

std::unique_ptr<DryPlan> plan_of(const Config& config) {
  return std::make_unique<DryPlan>(config, 96, 160, 1, PlanOptions{.training = true});
}

TEST(Backbones, StagesHaveTheStrides4To32) {
  for (const std::string& name : backbone_names()) {
    const std::string nodes = plan_of(detector_on(name, "retinanet"))->plan.describe();
    for (int level = 0; level < 4; ++level) {
      const std::string lateral = say("backbone.fpn.inner_blocks.", level, ".0");
      const size_t at = nodes.find(lateral);
      ASSERT_NE(at, nodes.npos) << name;
      const std::string line = nodes.substr(at, nodes.find('\n', at) - at);
      EXPECT_NE(line.find(say("1x", 24 >> level, "x", 40 >> level, "x8")), line.npos) << name << ": " << line;
    }
  }
}

TEST(Backbones, AreTheClassifiersLayers) {
  for (const std::string& name : backbone_names()) {
    Config classifier;
    classifier.model.name = name;
    const auto whole = plan_of(classifier), detector = plan_of(detector_on(name, "retinanet"));
    std::vector<std::string> known;
    for (const Param& param : whole->parameters.all()) known.push_back(param.name);
    size_t found = 0;
    const std::string body = "backbone.body.";
    for (const Param& param : detector->parameters.all()) {
      if (!param.name.starts_with(body)) continue;
      EXPECT_EQ(std::ranges::count(known, param.name.substr(body.size())), 1) << param.name;
      ++found;
    }
    EXPECT_EQ(known.size() - found, name.starts_with("resnet") ? 2u : 5u) << name;  // the layers behind the stages
  }
}

TEST(Backbones, OnlyResNetsHaveALastStageForRegions) {
  for (const char* const name : {"faster_rcnn_c4", "rfcn"}) {
    Config config;
    config.model.name = name;
    config.model.backbone = "efficientnet_lite0";
    config.model.classes = 3;
    try {
      plan_of(config);
      FAIL() << name;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("needs the last stage of a ResNet"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace octet
