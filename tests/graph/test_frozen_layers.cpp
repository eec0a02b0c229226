// Layers that are never trained: they stay as they are, need little memory, and change no gradient of the others.
#include <cmath>
#include <map>
#include <tuple>

#include "src/models/backbone.h"
#include "tests/graph/harness.h"

namespace octet {
namespace {

// A small RetinaNet with two frozen stages and, if `norm` says so, frozen norms.
Config frozen_config(const std::string& policy, const std::string& norm = "frozen", int64_t stages = 2,
                     const std::string& backbone = "resnet18") {
  Config config;
  config.model.name = "retinanet";
  config.model.backbone = backbone;
  config.model.classes = 3;
  config.model.neck_channels = 16;
  config.model.head_depth = 1;
  config.model.norm = norm;
  config.model.freeze_stages = stages;
  config.policy.name = policy;
  config.train.lr = 1e-3;
  return config;
}

class FrozenNetwork {
 public:
  explicit FrozenNetwork(const Config& config, PlanOptions options = {}, std::unique_ptr<Backend> backend = nullptr)
      : harness_(config, backend ? std::move(backend) : cpu(), images, side, stored(config, options)) {
    for (int32_t i = 0; i < images; ++i) {
      truth_.images.push_back({.index = i,
                               .width = side,
                               .height = side,
                               .content_width = side,
                               .content_height = side,
                               .first = uint32_t(i),
                               .count = 1});
      const auto shift = float(4 * i);
      truth_.objects.push_back({{4 + shift, 6, 40 + shift, 44}, i % 3});
    }
    // Statistics that differ from those of a new network.
    for (Statistic& statistic : harness_.step->parameters().statistics())
      for (int64_t i = 0; !statistic.range && i < statistic.tensor.elements(); ++i)
        statistic.tensor.f32()[i] += 0.01f * float(i % 7);
  }

  StepReport train(int64_t index) {
    Batch batch = harness_.batch_of(index);
    batch.targets = {.truth = &truth_};
    return harness_.run(batch);
  }
  Harness& harness() { return harness_; }
  Parameters& parameters() { return harness_.step->parameters(); }
  bool rounds_masters() const { return harness_.step->policy().simulation() != nullptr; }
  // Parameters and statistics by name; ranges of activations aside, which follow the images.
  std::map<std::string, std::vector<float>> state() {
    std::map<std::string, std::vector<float>> values;
    const auto add = [&](const std::string& name, const Tensor& tensor) {
      values[name] = {tensor.f32(), tensor.f32() + tensor.elements()};
    };
    for (const Param& param : parameters().all()) add(param.name, param.master);
    for (const Statistic& statistic : parameters().statistics())
      if (!statistic.range && !statistic.training_only) add(statistic.name, statistic.tensor);
    return values;
  }

 private:
  static constexpr int32_t images = 4, side = 64;
  static std::unique_ptr<Backend> cpu() { return make_cpu_backend({best_isa(), 2, RealConvolution::fixed_order}); }
  static PlanOptions stored(const Config& config, PlanOptions options) {
    if (config.policy.name != "unified_int8") options.storage = DType::f32;
    return options;
  }

  Harness harness_;
  Truth truth_;
};

// Whether the parameter or statistic belongs to the stem or to layer1.
bool in_frozen_stage(const std::string& name) {
  return name.starts_with("backbone.body.conv1") || name.starts_with("backbone.body.bn1") ||
         name.starts_with("backbone.body.layer1.");
}
bool of_norm(const std::string& name) {
  return name.find(".bn") != std::string::npos || name.find(".downsample.1.") != std::string::npos;
}

TEST(FrozenLayers, StayAsTheyAre) {
  for (const char* policy : {"unified_int8", "fp32", "dorefa", "wageubn", "fp8", "psq", "dai8"}) {
    for (const char* norm : {"batch", "frozen"}) {
      FrozenNetwork network(frozen_config(policy, norm));
      const auto before = network.state();
      for (int64_t step = 0; step < 2; ++step) ASSERT_FALSE(network.train(step).skipped) << policy;
      size_t same = 0;
      for (const auto& [name, values] : network.state()) {
        const bool frozen = in_frozen_stage(name) || (of_norm(name) && norm == std::string("frozen"));
        const bool is_small = name.ends_with(".bias") || (of_norm(name) && name.ends_with(".weight"));
        const bool may_stay = is_small && network.rounds_masters();  // where a step is lost in rounding
        if (may_stay && !frozen) continue;
        EXPECT_EQ(values == before.at(name), frozen) << policy << ' ' << norm << ' ' << name;
        same += frozen;
      }
      EXPECT_EQ(same, norm == std::string("frozen") ? 20 * 4 + 5 : 5 * 5) << policy;
    }
  }
}

TEST(FrozenLayers, HaveNoGradientAndNoMomentum) {
  FrozenNetwork network(frozen_config("unified_int8", "batch"));
  size_t frozen = 0;
  for (const Param& param : network.parameters().all()) {
    EXPECT_EQ(param.frozen, in_frozen_stage(param.name)) << param.name;
    EXPECT_EQ(bool(param.gradient), !param.frozen) << param.name;
    EXPECT_EQ(bool(param.velocity), !param.frozen) << param.name;
    frozen += param.frozen;
  }
  EXPECT_EQ(frozen, 3u * 5);
  EXPECT_EQ(network.parameters().slices().size(), network.parameters().all().size() - frozen);
}

// The gradients of what trains, bit by bit, also where int8 codes and their clips are between.
TEST(FrozenLayers, ChangeNoGradientOfTheOthers) {
  using Case = std::tuple<const char*, int, const char*>;
  for (const auto& [policy, bits, backbone] : {Case{"fp32", 8, "resnet18"},
                                               {"unified_int8", 8, "resnet18"},
                                               {"unified_int8", 4, "resnet18"},
                                               {"unified_int8", 8, "mobilenet_v2"},
                                               {"unified_int8", 8, "efficientnet_lite0"}}) {
    Config of_whole = frozen_config(policy, "frozen", 0, backbone),
           of_part = frozen_config(policy, "frozen", 3, backbone);
    of_whole.policy.bits.weight = of_part.policy.bits.weight = bits;
    FrozenNetwork whole(of_whole), part(of_part);
    EXPECT_EQ(whole.train(0).figures[0].value, part.train(0).figures[0].value);
    for (const Param& param : part.parameters().trained()) {
      const Tensor expected = whole.harness().param(param.name).gradient;
      for (int64_t i = 0; i < expected.elements(); ++i)
        ASSERT_EQ(param.gradient.f32()[i], expected.f32()[i]) << policy << ' ' << param.name << ' ' << i;
    }
  }
}

// Added to the variance, so it can be moved from there.
TEST(FrozenLayers, NormsHaveTheRecipesEpsilon) {
  const auto loss = [](double epsilon, float added) {
    Config config = frozen_config("fp32");
    config.model.norm_epsilon = epsilon;
    FrozenNetwork network(config);
    for (Statistic& statistic : network.parameters().statistics())
      for (int64_t i = 0; statistic.name.ends_with("running_var") && i < statistic.tensor.elements(); ++i)
        statistic.tensor.f32()[i] += added;
    return network.train(0).figures[0].value;
  };
  const double expected = loss(0.25, 0);
  EXPECT_NEAR(loss(0, 0.25f), expected, 1e-5 * expected);
  EXPECT_GT(std::abs(loss(0, 0) - expected), 1e-3 * expected);
}

TEST(FrozenLayers, SharedMemoryAndPoisonChangeNoBit) {
  for (const char* policy : {"unified_int8", "dorefa"}) {
    for (const char* norm : {"batch", "frozen"}) {
      const auto state = [&](PlanOptions options) {
        FrozenNetwork network(frozen_config(policy, norm), options);
        for (int64_t step = 0; step < 2; ++step) network.train(step);
        return network.state();
      };
      EXPECT_EQ(state({.poison = true}), state({.own_slots = true})) << policy << ' ' << norm;
    }
  }
  const auto stored_as_codes = [](PlanOptions options) {
    options.storage = DType::s8;
    FrozenNetwork network(frozen_config("unified_int8"), options);
    for (int64_t step = 0; step < 2; ++step) network.train(step);
    return network.state();
  };
  EXPECT_EQ(stored_as_codes({.poison = true}), stored_as_codes({.own_slots = true}));
}

TEST(FrozenLayers, WholeBackboneTrainsNothingBelowTheNeck) {
  for (const std::string& backbone : backbone_names()) {
    FrozenNetwork network(frozen_config("unified_int8", "batch", 5, backbone));
    for (const Param& param : network.parameters().trained())
      EXPECT_FALSE(param.name.starts_with("backbone.body")) << param.name;
    EXPECT_FALSE(network.train(0).skipped) << backbone;
  }
}

TEST(FrozenLayers, NormOfAPolicyOfItsOwnIsRefused) {
  for (const Config& config : {frozen_config("range_bn"), frozen_config("range_bn", "batch", 1)}) {
    try {
      FrozenNetwork refused(config);
      FAIL();
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("set model.norm: batch"), std::string::npos) << error.what();
    }
  }
}

TEST(FrozenLayers, NeedLessMemoryAndWork) {
  const auto planned = [](int64_t stages) {
    Config config = frozen_config("unified_int8", "frozen", stages);
    config.model.backbone = "resnet50";
    config.model.classes = 80;
    config.model.neck_channels = 256;
    config.model.head_depth = 4;
    config.policy.quantize_last = true;
    return std::make_unique<DryPlan>(config, 800, 1344, 1, PlanOptions{});
  };
  const size_t whole = planned(0)->plan.arena_bytes(), part = planned(2)->plan.arena_bytes();
  std::printf("RetinaNet with ResNet-50, 800x1344: arena %.1f MB, with two frozen stages %.1f MB\n",
              double(whole) / 1e6, double(part) / 1e6);
  EXPECT_LT(part, whole * 3 / 4);
  FrozenNetwork all(frozen_config("unified_int8", "frozen", 0)), some(frozen_config("unified_int8"));
  const Work of_all = all.harness().plan().work(), of_some = some.harness().plan().work();
  EXPECT_LT(of_some.products, of_all.products);
  EXPECT_LT(of_some.pass_bytes, of_all.pass_bytes);
  EXPECT_LT(of_some.update_bytes, of_all.update_bytes);
}

}  // namespace
}  // namespace octet
