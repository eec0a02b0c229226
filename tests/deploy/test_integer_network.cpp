// Integer networks: the same logits on every backend, and those of the training's kernels but for rounding.
#include <cmath>

#include "src/deploy/advice.h"
#include "tests/deploy/trained.h"

namespace octet {
namespace {

class FoldedNetwork : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Networks, FoldedNetwork,
                         testing::Values(Case{"resnet20", 32}, Case{"mobilenet_v2", 32}, Case{"efficientnet_lite0", 32},
                                         Case{"alexnet", 32}, Case{"alexnet", 32, true}, Case{"resnet18", 32, true},
                                         Case{"inception_v3", 32}),
                         name_of_case);

TEST_P(FoldedNetwork, SaysTheSameOnEveryBackend) {
  const Case& c = GetParam();
  Harness harness = trained(c, 2);
  const IntegerLayers layers = folded(harness);
  const std::vector<float> plain = integer_logits(harness, layers, make_reference_backend(), c.size);
  for (const Isa isa : available_isas())
    for (const int threads : {1, 3})
      EXPECT_EQ(integer_logits(harness, layers, make_cpu_backend({.isa = isa, .threads = threads}), c.size), plain)
          << name_of(isa) << ", " << threads << " threads";
}

TEST_P(FoldedNetwork, SaysTheSameOf200Images) {
  const Case& c = GetParam();
  Harness harness = trained(c, 200, 2);
  const IntegerLayers layers = folded(harness);
  const std::vector<float> plain = integer_logits(harness, layers, make_reference_backend(), c.size);
  for (const Isa isa : available_isas())
    EXPECT_EQ(integer_logits(harness, layers, make_cpu_backend({.isa = isa, .threads = 2}), c.size), plain)
        << name_of(isa);
}

TEST_P(FoldedNetwork, SaysWhatTheTrainingSays) {
  const Case& c = GetParam();
  Harness harness = trained(c, 16);
  const IntegerLayers layers = folded(harness);
  const std::vector<float> training = harness.step->evaluate(harness.batch_of(0), true).logits;
  std::vector<float> difference =
      integer_logits(harness, layers, make_cpu_backend({.isa = best_isa(), .threads = 2}), c.size);
  ASSERT_EQ(difference.size(), training.size());
  for (size_t i = 0; i < training.size(); ++i) difference[i] -= training[i];
  // A wrong channel, sign or border would move the logits by their own size; roundings move them by a few percent.
  EXPECT_LT(mean_square(difference), 0.01 * mean_square(training));
}

TEST(IntegerNetworks, RefuseWhatHasNoIntegers) {
  const auto refusal = [](const Case& c, const char* policy, const char* range) {
    Config config = config_of(c);
    config.policy.name = policy;
    if (range) config.policy.activation_range = range;
    Harness harness(config, make_cpu_backend({.isa = best_isa(), .threads = 2}), 2, c.size, {});
    harness.train(0);
    harness.step->begin_evaluation();
    try {
      folded(harness);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(refusal({"resnet20", 32}, "fp32", nullptr).find("policy fp32 has no integer network"), std::string::npos);
  EXPECT_NE(refusal({"resnet20", 32}, "unified_int8", "absmax").find("no integer network"), std::string::npos);
}

TEST(IntegerNetworks, NameCalibrationWhereRangesAreNotKnown) {
  Harness harness(config_of({"resnet20", 32}), make_cpu_backend({.isa = best_isa(), .threads = 2}), 2, 32, {});
  harness.step->begin_evaluation();
  try {
    folded(harness);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("octet calibrate"), std::string::npos) << error.what();
  }
}

TEST(IntegerNetworks, NameTheKeysThatHelpWhereTheyLose) {
  Config::Policy policy;
  EXPECT_EQ(advice(policy, "top-1", 0.8981, 0.9), "");
  EXPECT_EQ(advice(policy, "top-1", 0.91, 0.9), "");
  EXPECT_EQ(advice(policy, "top-1", 0.8975, 0.9),
            "the integers lose 0.25 points of top-1; train with policy.quantize_first: true and policy.quantize_last: "
            "true, so that training rounds every layer");
  policy.quantize_last = true;
  EXPECT_TRUE(advice(policy, "AP", 0.4, 0.5)
                  .ends_with("AP; train with policy.quantize_first: true, so that training rounds every layer"));
  policy.quantize_first = true;
  EXPECT_EQ(advice(policy, "AP", 0.4, 0.5), "the integers lose 10.00 points of AP");
}

// Ranges of outputs before a ReLU6 may be larger. Programs compute such a layer in real numbers.
TEST(IntegerNetworks, HaveNoCodeAboveTheEndOfARelu6) {
  Harness harness = trained({"mobilenet_v2", 32}, 2, 1);
  for (const Statistic& statistic : harness.step->parameters().statistics())
    if (statistic.tensor.elements() == 1) statistic.tensor.f32()[0] = 7;  // a range
  const IntegerLayers layers = folded(harness);
  EXPECT_TRUE(std::ranges::any_of(layers.notes, [](const std::string& note) {
    return note.find("ReLU6 layer(s) are above 6: their codes end at 6") != std::string::npos;
  }));
  size_t bounded = 0;
  for (const auto& [name, layer] : layers.by_node) {
    if (layer.output != DType::u8) continue;
    EXPECT_FLOAT_EQ(layer.scale * 255, 6) << name;
    EXPECT_EQ(layer.highest, 255) << name;
    ++bounded;
  }
  EXPECT_GT(bounded, 30u);
}

// A channel with hardly any weight and a large bias: the sum fits, and the output is right.
TEST(IntegerNetworks, DeadChannelsKeepTheirBias) {
  const Case c{"resnet20", 32};
  Harness harness = trained(c, 4);
  float* const gamma = harness.param("layer1.0.bn1.weight").master.f32();
  float* const beta = harness.param("layer1.0.bn1.bias").master.f32();
  gamma[0] = 1e-12f, beta[0] = 1;
  gamma[1] = 0, beta[1] = 1;
  gamma[2] = -gamma[2];
  harness.step->begin_evaluation();
  const IntegerLayers layers = folded(harness);
  ASSERT_EQ(layers.notes.size(), 1u);
  EXPECT_NE(layers.notes[0].find("'layer1.0.conv1': the weights of 2 channel(s)"), std::string::npos)
      << layers.notes[0];
  const IntegerLayer& layer = layers.by_node.at("layer1.0.conv1");
  for (const size_t channel : {0u, 1u}) EXPECT_NEAR(layer.bias[channel] * layer.factor[channel] * layer.scale, 1, 1e-4);
  const std::vector<float> training = harness.step->evaluate(harness.batch_of(0), true).logits;
  std::vector<float> difference =
      integer_logits(harness, layers, make_cpu_backend({.isa = best_isa(), .threads = 2}), c.size);
  for (size_t i = 0; i < training.size(); ++i) difference[i] -= training[i];
  EXPECT_LT(mean_square(difference), 0.01 * mean_square(training));
}

}  // namespace
}  // namespace octet
