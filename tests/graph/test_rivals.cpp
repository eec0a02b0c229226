// With eight bits everywhere, a rival policy's gradients point where those of fp32 do, from the same weights and
// images.
#include <cmath>

#include "src/graph/nodes/nodes.h"
#include "tests/graph/harness.h"

namespace octet {
namespace {

Config config_of(const std::string& policy, const std::string& model) {
  Config config;
  config.policy.name = policy;
  config.policy.quantize_last = policy == "wage";
  if (policy == "wage") config.train.momentum = config.train.decay = 0;
  if (policy == "wageubn") config.train.decay = 0;  // its update would add it to the gradients, which are compared
  config.model.name = model;
  config.model.dropout = 0;
  return config;
}

double cosine(const Param& a, const Param& b) {
  double dot = 0, aa = 0, bb = 0;
  for (int64_t i = 0; i < a.gradient.elements(); ++i) {
    const double x = a.gradient.f32()[i], y = b.gradient.f32()[i];
    dot += x * y, aa += x * x, bb += y * y;
  }
  return dot / std::sqrt(aa * bb);
}

// Rounding errors add up towards the input, so the bound is that of the first layers; whatever is wrong (a sign, a
// mask, an order) gives a cosine about 0.
void compare(const std::string& policy, const std::string& model, double least, float shrink) {
  const PlanOptions options{.storage = DType::f32};
  Harness exact(config_of("fp32", model), make_cpu_backend({best_isa(), 2, RealConvolution::fixed_order}), 8, 32,
                options);
  const auto real = make_policy(config_of(policy, model))->traits().real_convolution;
  Harness rival(config_of(policy, model), make_cpu_backend({best_isa(), 2, real}), 8, 32, options);
  for (float& pixel : exact.images) pixel *= shrink;
  rival.images = exact.images;
  for (Param& param : rival.params()) {
    const float* from = param.master.f32();
    std::copy(from, from + param.master.elements(), exact.param(param.name).master.f32());
  }
  // The masters change at the end of a step, the gradients do not.
  exact.train(0);
  rival.train(0);
  double worst = 1;
  for (Param& param : rival.params()) {
    if (!is_weight(param.kind)) continue;
    const double close = cosine(param, exact.param(param.name));
    EXPECT_GT(close, least) << policy << " " << param.name;
    worst = std::min(worst, close);
  }
  std::printf("%s on %s: least cosine of a weight's gradient with fp32's %.4f\n", policy.c_str(), model.c_str(), worst);
}

// Images are dim, so that no activation reaches WAGE's clip, which fp32 does not have.
TEST(Rivals, WagePointsWhereFp32Does) { compare("wage", "vgg7", 0.8, 0.25f); }
TEST(Rivals, WageUbnPointsWhereFp32Does) { compare("wageubn", "resnet20", 0.55, 1); }
TEST(Rivals, Fp8PointsWhereFp32Does) { compare("fp8", "resnet20", 0.2, 1); }
TEST(Rivals, PerSamplePointsWhereFp32Does) { compare("psq", "resnet20", 0.65, 1); }
TEST(Rivals, DistributionAdaptivePointsWhereFp32Does) { compare("dai8", "resnet20", 0.65, 1); }
TEST(Rivals, RangeBnPointsWhereFp32Does) { compare("range_bn", "resnet20", 0.45, 1); }
TEST(Rivals, UnifiedInt8PointsWhereFp32Does) { compare("unified_int8", "resnet20", 0.65, 1); }

// Weights of two bits begin on their grid; those of the full-precision first layer on 1 / alpha of it.
TEST(Rivals, WageBeginsOnItsGrid) {
  Config config = config_of("wage", "vgg7");
  config.policy.bits.weight = 2;
  Harness rival(config, make_reference_backend(), 2, 32, {.storage = DType::f32});
  int full_precision = 0, coded = 0;
  for (const Param& param : rival.params()) {
    if (!is_weight(param.kind)) continue;
    const float gain = rival.step->policy().weight_gain(param.shape.h * param.shape.w * param.shape.c);
    ASSERT_LT(gain, 1) << param.name;
    (param.full_precision ? full_precision : coded)++;
    float largest = 0;
    for (int64_t i = 0; i < param.master.elements(); ++i) largest = std::max(largest, std::abs(param.master.f32()[i]));
    EXPECT_EQ(largest, param.full_precision ? 0.5f * gain : 0.5f) << param.name;
  }
  EXPECT_EQ(full_precision, 1);
  EXPECT_GT(coded, 0);
}

// The gradients of an image's logits sum to 0. Of many classes each has so little that a grid of 8 bits for all of
// them would swallow it.
TEST(Rivals, GradientsOfLogitsAreNotRounded) {
  for (const char* policy : {"wageubn", "range_bn", "dorefa", "fp8", "psq", "dai8"}) {
    Config config = config_of(policy, "resnet20");
    config.model.classes = 1000;
    const auto real = make_policy(config)->traits().real_convolution;
    Harness rival(config, make_cpu_backend({best_isa(), 2, real}), 8, 32, {.storage = DType::f32});
    rival.train(0);
    const Param& bias = rival.param("fc.bias");
    double sum = 0, magnitude = 0;
    for (int64_t i = 0; i < 1000; ++i) sum += bias.gradient.f32()[i], magnitude += std::abs(bias.gradient.f32()[i]);
    EXPECT_LT(std::abs(sum), 1e-5 * magnitude) << policy;
  }
}

// With zeros for weights a block's own path passes no gradient on, and the shortcut's is not rounded: it is the same
// in every step, whatever the random bits.
TEST(Rivals, RangeBnSparesShortcuts) {
  std::vector<float> gradients[2];
  for (int step = 0; step < 2; ++step) {
    const auto network = [](const Policy& policy, bool, int) {
      Graph graph(policy);
      const Edge x = conv(graph, "first", input(graph, {16, 16}), {.out = 8, .kernel = 1});
      const Edge y = conv(graph, "block", x, {.out = 8, .kernel = 1, .norm = "norm", .residual = x});
      const Edge logits = linear(graph, "fc", global_pool(graph, "pool", y), {.out = 10, .gives_logits = true});
      softmax_loss(graph, {.heads = {{logits}}});
      return graph;
    };
    Harness rival(config_of("range_bn", "resnet20"), make_reference_backend(), 4, 16, {.storage = DType::f32}, network);
    const Tensor weights = rival.param("block.weight").master;
    std::fill_n(weights.f32(), weights.elements(), 0.0f);
    rival.train(step);
    const Tensor gradient = rival.param("first.bias").gradient;
    gradients[step].assign(gradient.f32(), gradient.f32() + 8);
  }
  EXPECT_EQ(gradients[0], gradients[1]);
  EXPECT_NE(gradients[0], std::vector<float>(8));
}

// A range is no variance of a sample: its running mean is that of the ranges as they are, of the last batches.
TEST(Rivals, RangesRunUncorrected) {
  Harness rival(config_of("range_bn", "resnet20"), make_reference_backend(), 4, 16, {.storage = DType::f32});
  rival.train(0);
  const Statistic& running = rival.step->parameters().statistics()[1];
  ASSERT_EQ(running.name, "bn1.running_var");
  const float* ranges = rival.step->parameters().all_moments().f32() + 16;  // behind the means
  for (int64_t c = 0; c < 16; ++c) EXPECT_FLOAT_EQ(running.tensor.f32()[c], 0.1f + 0.9f * ranges[c]);
}

}  // namespace
}  // namespace octet
