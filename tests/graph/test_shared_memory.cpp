// Tensors of a plan share memory, which never changes a bit.
#include "tests/graph/harness.h"

namespace octet {
namespace {

TEST(Plan, SharedMemoryAndPoisonChangeNoBit) {
  for (DType storage : {DType::f32, DType::bf16, DType::s8}) {
    PlanOptions shared{.storage = storage, .poison = true}, own{.storage = storage, .own_slots = true};
    EXPECT_EQ(weights_after(int8_config(), 3, shared), weights_after(int8_config(), 3, own));
  }
  PlanOptions shared{.poison = true}, own{.own_slots = true};
  EXPECT_EQ(weights_after(int8_config("mobilenet_v2"), 2, shared), weights_after(int8_config("mobilenet_v2"), 2, own));
}

// The gradient of a residual is that of the sum, in its place, with a mask, or is written: with and without an
// activation behind the sum, with and without a convolution on the shortcut, which may leave gaps.
void expect_same_in_parts(const std::string& model, const std::function<std::unique_ptr<Backend>()>& backend) {
  std::vector<float> weights[2];
  size_t bytes[2];
  for (const bool parts : {false, true}) {
    Harness h(int8_config(model), backend(), 4, 32, {.gradients_in_parts = parts, .poison = true});
    for (int step = 0; step < 2; ++step) h.train(step);
    weights[parts] = h.weights(), bytes[parts] = h.plan().arena_bytes();
  }
  EXPECT_EQ(weights[0], weights[1]) << model;
  if (model != "mobilenet_v2") {  // whose memory is needed elsewhere at that time
    EXPECT_NE(bytes[0], bytes[1]) << model;
  }
}

TEST(Plan, GradientsInPartsChangeNoBit) {
  for (const std::string model : {"resnet20", "resnet50", "mobilenet_v2"}) {
    expect_same_in_parts(model, [] { return make_cpu_backend({.isa = best_isa(), .threads = 2}); });
    if (model != "resnet50") expect_same_in_parts(model, make_reference_backend);  // plain loops take long
  }
}

// Concatenation, dropout, a linear layer over an image; and what simulated policies keep.
TEST(Plan, SharedMemoryChangesNoBitOfAnyPolicy) {
  std::vector<Config> configs = {int8_config("inception_v3"), int8_config("alexnet"),
                                 int8_config("efficientnet_lite0")};
  for (const char* policy : {"dorefa", "wage", "wageubn", "range_bn", "fp8", "psq", "dai8"}) {
    Config config;
    config.policy.name = policy;
    config.train.lr = 0.01;
    if (policy == std::string("wage")) {
      config.model.name = "alexnet";
      config.train.momentum = config.train.decay = 0;
    }
    configs.push_back(config);
  }
  for (const Config& config : configs) {
    const auto weights = [&](PlanOptions options) {
      if (config.policy.name != "unified_int8") options.storage = DType::f32;
      const int64_t size = config.model.name == "resnet20" ? 16 : 32;
      Harness h(config, make_cpu_backend({.isa = best_isa(), .threads = 2}), 4, size, options);
      for (int step = 0; step < 2; ++step) h.train(step);
      return h.weights();
    };
    EXPECT_EQ(weights({.poison = true}), weights({.own_slots = true}))
        << config.policy.name << ' ' << config.model.name;
  }
}

TEST(Plan, SharingSavesMemory) {
  Harness shared(int8_config(), make_reference_backend(), 4, 32, {.storage = DType::bf16});
  Harness own(int8_config(), make_reference_backend(), 4, 32, {.storage = DType::bf16, .own_slots = true});
  EXPECT_LT(shared.plan().arena_bytes(), own.plan().arena_bytes() * 3 / 4);
}

TEST(Plan, NarrowerStorageSavesMemory) {
  const auto arena = [](DType storage) {
    return Harness(int8_config(), make_reference_backend(), 4, 32, {.storage = storage}).plan().arena_bytes();
  };
  EXPECT_LT(arena(DType::bf16), arena(DType::f32) * 3 / 4);
  EXPECT_LT(arena(DType::s8), arena(DType::bf16) * 4 / 5);
}

}  // namespace
}  // namespace octet
