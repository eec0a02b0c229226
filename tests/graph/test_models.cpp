// The networks of classification: names, sizes and options.
#include "src/models/detectors.h"
#include "src/models/models.h"
#include "tests/graph/harness.h"

namespace octet {
namespace {

TEST(Models, UnknownNameIsAUsageErrorWithTheKnownOnes) {
  try {
    Config config;
    config.model.name = "resnet21";
    const DryPlan plan(config, 32, 32, 1, {});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("resnet20"), std::string::npos);
  }
}

TEST(Models, DropoutIsRefusedWhereThereIsNone) {
  const auto nodes = [](const char* model, double rate) {
    Config config;
    config.model.name = model;
    config.model.dropout = rate;
    const auto policy = make_policy(config);
    return task_of(config).network(config, *policy, 32, 32, true).nodes().size();
  };
  EXPECT_THROW(nodes("resnet18", 0.2), UsageError);
  nodes("resnet18", 0);
  EXPECT_EQ(nodes("inception_v3", 0.2), nodes("inception_v3", 0) + 1);
}

// torchvision's InceptionV3 needs 75 pixels too: in the last grid reduction a 3 x 3 kernel has no room in 2 x 2.
TEST(Models, ImagesThatAreTooSmallAreRefused) {
  const auto build = [&](const char* name, int64_t size) {
    Config config;
    config.policy.name = "fp32";
    config.model.name = name;
    DryPlan(config, size, size, 2, {});
  };
  build("inception_v3", 75);
  EXPECT_THROW(build("inception_v3", 74), Error);
  build("vgg7", 8);
  EXPECT_THROW(build("vgg7", 4), Error);
}

// ResNet-18 gives 1 x 1 maps of 32 x 32 images from layer4 on.
TEST(Models, NormsNeedTwoValuesOfAChannel) {
  const auto refusal = [](int64_t batch, PlanOptions options, const char* freeze = "") -> std::string {
    Config config;
    config.policy.name = "fp32";
    config.model.name = "resnet18";
    config.train.freeze = freeze;
    try {
      DryPlan(config, 32, 32, batch, options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  const std::string message = refusal(1, {});
  EXPECT_NE(message.find("layer4.0.bn1"), std::string::npos) << message;
  EXPECT_NE(message.find("data.image_size"), std::string::npos) << message;
  EXPECT_NE(refusal(8, {.norm_group = 1}).find("layer4.0.bn1"), std::string::npos);
  EXPECT_EQ(refusal(2, {}), "");
  EXPECT_EQ(refusal(8, {.norm_group = 2}), "");
  EXPECT_EQ(refusal(1, {.training = false}), "");
  EXPECT_EQ(refusal(1, {}, "layer4"), "") << "a frozen norm has no statistics of the batch";
}

// Larger images are no way out where a linear layer has a norm, or where the network takes no others.
TEST(Models, AdviceForNormsOfOneValueCanBeFollowed) {
  const auto refusal = [](const std::string& network, int64_t side, int64_t batch, int64_t group = 0) -> std::string {
    Config config;
    config.policy.name = "fp32";
    config.model.name = network;
    try {
      DryPlan(config, side, side, batch, {.norm_group = group});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  for (const std::string& network : model_names()) {
    if (is_detector(network)) continue;
    const std::string alone = refusal(network, 32, 1);
    EXPECT_EQ(refusal(network, 32, 2), "") << network;
    if (alone.empty()) continue;
    EXPECT_NE(alone.find("a larger data.batch"), std::string::npos) << alone;
    EXPECT_EQ(alone.find("train.norm_group"), std::string::npos) << alone;
    EXPECT_EQ(alone.find("data.image_size") != std::string::npos, refusal(network, 64, 1).empty()) << alone;
    EXPECT_NE(refusal(network, 32, 2, 1).find("set train.norm_group to 0"), std::string::npos) << network;
  }
  EXPECT_NE(refusal("alexnet_bn", 32, 1).find("'classifier.1'"), std::string::npos);
}

// With weights of one form another one computes something else.
TEST(Models, HaveFormsBySizesOfImages) {
  for (const char* const network : {"mobilenet_v2", "efficientnet_lite0"}) {
    EXPECT_EQ(form_of(network, 32), 0u);
    EXPECT_EQ(form_of(network, 33), 1u);
    EXPECT_EQ(form_of(network, 224), 1u);
  }
  const std::pair<int64_t, size_t> inception[] = {{32, 0}, {33, 1}, {64, 1}, {65, 2}, {299, 2}};
  for (const auto& [side, form] : inception) EXPECT_EQ(form_of("inception_v3", side), form);
  for (const char* const network : {"resnet18", "resnet20", "vgg7", "retinanet"})
    EXPECT_EQ(form_of(network, 32), form_of(network, 224));
}

TEST(Models, SidesThatAlexNetTakesAreNamed) {
  for (const char* const network : {"alexnet", "alexnet_bn"}) {
    Config config;
    config.policy.name = "fp32";
    config.model.name = network;
    for (const int64_t side : {29, 64, 223, 224, 226}) {
      EXPECT_TRUE(form_of(network, side));
      DryPlan(config, side, side, 2, {});
    }
    for (const int64_t side : {28, 65, 96, 222, 227}) {
      EXPECT_FALSE(form_of(network, side));
      try {
        DryPlan(config, side, side, 2, {});
        ADD_FAILURE() << side;
      } catch (const UsageError& error) {
        EXPECT_NE(std::string(error.what()).find("set data.image_size to 29 .. 64 or 223 .. 226"), std::string::npos)
            << error.what();
      }
    }
  }
}

// EfficientNet-Lite0 has as many as the package efficientnet_lite_pytorch says.
TEST(Models, ParameterCountsEqualTorchvision) {
  const std::pair<const char*, int64_t> known[] = {
      {"resnet18", 11689512},    {"resnet34", 21797672}, {"resnet50", 25557032},     {"resnet101", 44549160},
      {"mobilenet_v2", 3504872}, {"alexnet", 61100840},  {"inception_v3", 27161264}, {"efficientnet_lite0", 4652008}};
  for (const auto& [name, count] : known) {
    Config config;
    config.model.name = name;
    config.model.classes = 1000;
    config.policy.name = "fp32";
    const int64_t size = config.model.name == "inception_v3" ? 299 : 224;
    EXPECT_EQ(DryPlan(config, size, size, 2, {}).parameters.count(), count) << name;
  }
}

}  // namespace
}  // namespace octet
