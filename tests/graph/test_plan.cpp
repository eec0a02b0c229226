// The plan's promises: steps are functions of their inputs, int8 training learns.
#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/conv_table.h"
#include "src/graph/nodes/nodes.h"
#include "tests/emulated/kernels.h"
#include "tests/graph/harness.h"

namespace octet {
namespace {

// Layer by layer, with phi at its lower bound: without momentum and decay a step is that much of the gradient.
TEST(Plan, EachLayersLearningRateIsScaled) {
  Config config = int8_config();
  config.train.momentum = config.train.decay = 0;
  config.policy.lr_scale.alpha = 1e6;
  config.policy.lr_scale.beta = 0.25;
  Harness h(config, make_reference_backend(), 4, 16, {});
  const std::vector<float> before = h.weights();
  h.train(0);
  size_t at = 0, scaled = 0;
  for (Param& param : h.params()) {
    const bool full_precision = param.name == "conv1.weight" || param.name == "fc.weight" || !is_weight(param.kind);
    scaled += !full_precision;
    for (int64_t i = 0; i < param.master.elements(); ++i, ++at) {
      const float rate = float(config.train.lr) * (full_precision ? 1 : 0.25f);
      ASSERT_FLOAT_EQ(param.master.f32()[i], before[at] - rate * param.gradient.f32()[i]) << param.name << ' ' << i;
    }
  }
  EXPECT_EQ(scaled, 20u);
}

// Before the first step, naming the layer: an image of more than 131,072 output pixels.
TEST(Plan, WeightGradientsOfLargeImagesAreRefused) {
  const auto declare = [](int64_t size, bool training) {
    DryPlan(int8_config(), size, size, 1, {.training = training});
  };
  declare(256, true);
  declare(400, false);
  try {
    declare(400, true);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("'layer1.0.conv1' with a 400x400 output"), std::string::npos)
        << error.what();
  }
}

TEST(Plan, SumsBeyondInt32AreRefused) {
  const auto refused = [](const Config& config, int64_t size) {
    try {
      DryPlan(config, size, size, 1, {});
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refused(int8_config("vgg7"), 96).find("'classifier.0' sums 73728 products"), std::string::npos)
      << refused(int8_config("vgg7"), 96);
  Config many = int8_config();
  many.model.classes = 140'000;
  EXPECT_EQ(refused(many, 32), "");
  many.policy.quantize_last = true;
  EXPECT_NE(refused(many, 32).find("'fc' sums 140000 products"), std::string::npos);
}

// Every instruction set and any number of threads: the same weights, bit by bit.
TEST(Plan, TiersAndThreadsChangeNoBit) {
  for (const char* model : {"resnet20", "mobilenet_v2", "efficientnet_lite0"}) {
    for (DType storage : {DType::bf16, DType::s8}) {
      if (storage == DType::s8 && model != std::string("resnet20")) continue;
      const auto run = [&](Isa isa, int threads) {
        return weights_after(int8_config(model), 2, {.storage = storage},
                             make_cpu_backend({isa, threads, RealConvolution::fixed_order}));
      };
      const std::vector<float> expected = run(Isa::scalar, 1);
      for (Isa isa : available_isas())
        for (int threads : {1, 3})
          EXPECT_EQ(run(isa, threads), expected) << model << ' ' << name_of(isa) << ' ' << threads << name_of(storage);
    }
  }
}

#if defined(__x86_64__)
// No AMX here? Its kernels' text, on tiles emulated in C++.
TEST(Plan, TiersEqualEmulatedAmxAfterTwentySteps) {
  if (best_isa() < Isa::avx512_vnni) GTEST_SKIP() << "packs with AVX-512";
  const CpuOptions vnni{Isa::avx512_vnni, 2, RealConvolution::fixed_order};
  auto emulated = std::make_unique<cpu::TableConvolution>(cpu::amx_emulated::code_kernels, nullptr, vnni.threads);
  EXPECT_EQ(weights_after(int8_config(), 20, {.storage = DType::bf16},
                          std::make_unique<cpu::CpuBackend>(vnni, std::move(emulated))),
            weights_after(int8_config(), 20, {.storage = DType::bf16}, make_cpu_backend(vnni)));
}
#endif

// Behind an activation codes are unsigned, the pools and concatenations that keep them too; a projection's are
// signed.
TEST(Plan, ValuesThatAreNeverNegativeHaveUnsignedCodes) {
  const auto types = [](const Config& config, int64_t size) {
    DryPlan dry(config, size, size, 2, {});
    std::map<DType, int> counts;
    for (const QTensor& value : dry.plan.memory().values) ++counts[value.values.dtype];
    return counts;
  };
  using Counts = std::map<DType, int>;
  // Real: images, what the classifier reads, logits, loss. Signed: the projections of two stages.
  const Counts resnet20 = types(int8_config(), 32);
  EXPECT_EQ(resnet20.at(DType::s8), 2);
  EXPECT_EQ(resnet20.at(DType::u8), 19);
  Config config = int8_config("inception_v3");
  EXPECT_EQ(types(config, 96).count(DType::s8), 0u);
  config = int8_config("resnet18");
  EXPECT_EQ(types(config, 224).at(DType::s8), 3);
  // Of 300 x 300 pixels a sum might not hold 255 * 127 each: signed, and so is what the pool behind makes of them.
  EXPECT_EQ(types(config, 600).at(DType::s8), 5);
  config.policy.unsigned_activations = false;
  EXPECT_EQ(types(config, 224).count(DType::u8), 0u);
}

// ResNet-20 takes 40,813,184 multiply-adds for the forward pass of an image, its first layer 442,368, its last 640.
TEST(Plan, WorkCountsThreePassesOfEachLayer) {
  const Harness int8(int8_config(), make_reference_backend(), 4, 32, {});
  Config config;
  config.policy.name = "fp32";
  const Harness fp32(config, make_reference_backend(), 4, 32, {.storage = DType::f32});
  const Work codes = int8.plan().work(), real = fp32.plan().work();
  EXPECT_EQ(codes.products, 4 * (3 * 40'813'184 - 442'368));  // nobody wants the gradient of the images
  EXPECT_EQ(codes.real_products, 4 * (2 * 442'368 + 3 * 640));
  EXPECT_EQ(real.products, codes.products);
  EXPECT_EQ(real.real_products, real.products);
  EXPECT_EQ(real.update_bytes, 5 * 4 * 272'474);  // of the fp32 master, velocity and gradient
  EXPECT_EQ(codes.update_bytes,
            real.update_bytes + (4 + 1) * (272'474 - 1'568 - 432 - 650));  // not norms, first, last
  EXPECT_LT(2 * codes.convolution_bytes, real.convolution_bytes);
  EXPECT_LT(2 * codes.pass_bytes, real.pass_bytes);
}

// As torchvision draws them; its fan_out of a depthwise layer counts all channels.
TEST(Plan, InitialValuesHaveTheirDeviation) {
  const auto check = [](const char* model, const std::map<std::string, double>& deviations) {
    Config config;
    config.policy.name = "fp32";
    config.model.name = model;
    Harness harness(config, make_reference_backend(), 1, 32, {});
    for (const auto& [name, wanted] : deviations) {
      const Tensor values = harness.param(name + ".weight").master;
      double sum = 0, square = 0;
      for (int64_t i = 0; i < values.elements(); ++i)
        sum += values.f32()[i], square += double(values.f32()[i]) * values.f32()[i];
      const double count = double(values.elements()), mean = sum / count;
      EXPECT_NEAR(mean, 0, 5 * wanted / std::sqrt(count)) << name;
      EXPECT_NEAR(std::sqrt(square / count - mean * mean), wanted, 5 * wanted / std::sqrt(2 * count)) << name;
    }
  };
  check("resnet20", {{"layer3.0.conv1", std::sqrt(2.0 / (64 * 9))}});
  check("mobilenet_v2", {{"features.17.conv.1.0", std::sqrt(2.0 / (960 * 9))},
                         {"features.18.0", std::sqrt(2.0 / 1280)},
                         {"classifier.1", 0.01}});
  check("alexnet", {{"features.3", 1 / std::sqrt(3.0 * 64 * 25)}});  // uniform to 1 / sqrt(fan_in)
}

TEST(Plan, SameSeedSameBitsOtherSeedOthers) {
  Config config = int8_config();
  const std::vector<float> first = weights_after(config, 3, {});
  EXPECT_EQ(first, weights_after(config, 3, {}));
  config.seed = 2;
  EXPECT_NE(first, weights_after(config, 3, {}));
}

TEST(Plan, RefusesWhatTheMemoryOfTheRankDoesNotHold) {
  const auto with = [](size_t memory) {
    const Harness h(int8_config(), make_cpu_backend({.isa = best_isa(), .memory = memory}), 8, 16, {});
    return h.plan().arena_bytes() + h.step->parameters().bytes(true);
  };
  const size_t needed = with(SIZE_MAX);
  EXPECT_EQ(with(needed * 10 / 8), needed);
  EXPECT_THROW(with(needed), UsageError);  // the process needs more than the plan
}

TEST(Plan, Int8TrainingOverfitsOneBatch) {
  for (const DType storage : {DType::bf16, DType::s8}) {
    Harness h(int8_config(), make_cpu_backend({best_isa(), 1, RealConvolution::fixed_order}), 8, 16,
              {.storage = storage});
    const double first = h.train(0);
    double last = first;
    for (int step = 1; step < 25; ++step) last = h.train(step);
    EXPECT_LT(last, 0.5 * first) << name_of(storage);
  }
}

// In the range of the largest of 10,000 normal weights 95 % would be 0 in 2 bits, and nothing would learn.
TEST(Plan, TwoBitWeightsAreNotMostlyZeroAndLearn) {
  Config config = int8_config();
  config.policy.bits.weight = 2;
  Harness h(config, make_cpu_backend({best_isa(), 1, RealConvolution::fixed_order}), 8, 16, {});
  const double first = h.train(0);
  double last = first;
  for (int step = 1; step < 40; ++step) last = h.train(step);
  EXPECT_LT(last, 0.6 * first);
  int64_t codes = 0, zeros = 0;
  for (const Param& param : h.params()) {
    if (!param.encoding.quantized()) continue;
    const int8_t* const code = param.codes.values.s8();
    codes += param.shape.elements();
    zeros += std::count(code, code + param.shape.elements(), int8_t{0});
  }
  EXPECT_GT(codes, 200000);
  EXPECT_GT(double(zeros), 0.3 * double(codes));
  EXPECT_LT(double(zeros), 0.6 * double(codes));  // of normal weights, 46 %
}

TEST(Plan, EveryPolicySwitchRuns) {
  const auto loss_of = [](const std::function<void(Config&)>& change) {
    Config config = int8_config();
    change(config);
    Harness h(config, make_reference_backend(), 4, 16, {});
    double loss = 0;
    for (int step = 0; step < 2; ++step) loss = h.train(step);
    EXPECT_TRUE(std::isfinite(h.evaluate()));
    return loss;
  };
  const double plain = loss_of([](Config&) {});
  const std::function<void(Config&)> changes[] = {
      [](Config& c) { c.policy.clip.enabled = false; },
      [](Config& c) { c.policy.clip.enabled = c.policy.lr_scale.enabled = false; },
      [](Config& c) { c.policy.activation_range = "batch"; },
      [](Config& c) { c.policy.quantize_first = true; },
      [](Config& c) { c.policy.quantize_last = true; },
      [](Config& c) { c.policy.bits.weight = 2; },
      [](Config& c) { c.policy.bits.activation = 4; },
      [](Config& c) { c.policy.bits.gradient = 4; },
  };
  for (const auto& change : changes) {
    const double loss = loss_of(change);
    EXPECT_TRUE(std::isfinite(loss));
    EXPECT_NE(loss, plain);  // the switch does something
  }
}

// An int8 step is the fp32 step plus rounding: its gradients point the same way. A fresh network on eight noise
// images is the worst case: flipped ReLU masks multiply from the last layer (0.998) to the first (0.79).
TEST(Plan, Int8GradientsPointWhereRealOnesDo) {
  Config real, codes = int8_config();
  real.policy.name = "fp32";
  real.train.lr = codes.train.lr = 0;
  Harness a(real, make_reference_backend(), 8, 16, {.storage = DType::f32});
  a.train(0);
  for (DType storage : {DType::f32, DType::bf16, DType::s8}) {
    Harness b(codes, make_reference_backend(), 8, 16, {.storage = storage});
    b.train(0);
    double dot = 0, aa = 0, bb = 0;
    const std::span<const float> real_gradients = std::get<std::span<float>>(a.step->parameters().exchanged());
    const std::span<const float> coded = std::get<std::span<float>>(b.step->parameters().exchanged());
    for (size_t i = 0; i < coded.size(); ++i) {
      const double x = real_gradients[i], y = coded[i];
      dot += x * y;
      aa += x * x;
      bb += y * y;
    }
    EXPECT_GT(dot / std::sqrt(aa * bb), 0.75) << name_of(storage);
  }
}

// The error of a step that is not finite.
std::string nonfinite_step(Harness& h, int64_t index) {
  try {
    h.train(index);
  } catch (const Error& error) {
    return error.what();
  }
  return "finite";
}

TEST(Plan, FirstNonFiniteNamesTheLayer) {
  for (const DType storage : {DType::f32, DType::bf16, DType::s8}) {
    Harness h(int8_config(), make_reference_backend(), 4, 16, {.storage = storage});
    EXPECT_EQ(nonfinite_step(h, 0), "finite") << name_of(storage);
    h.images[17] = NAN;
    EXPECT_NE(nonfinite_step(h, 1).find("first at 'conv1'"), std::string::npos) << name_of(storage);
    h.images[17] = 0;
    Tensor last = h.param("fc.weight").master;  // the logits alone overflow; backward writes over what layers kept
    for (int64_t i = 0; i < last.elements(); ++i) last.f32()[i] = 3e38f;
    EXPECT_NE(nonfinite_step(h, 2).find("first at 'fc'"), std::string::npos) << name_of(storage);
    h.param("layer2.0.conv1.weight").master.f32()[5] = NAN;
    EXPECT_NE(nonfinite_step(h, 3).find("first at 'layer2.0.conv1.weight'"), std::string::npos) << name_of(storage);
  }
}

// Evaluation has a plan of its own, without what backward keeps, in the arena of training.
TEST(Plan, EvaluationNeedsAQuarterOfTheMemoryAndGivesTheSameLoss) {
  for (const DType storage : {DType::f32, DType::bf16, DType::s8}) {
    const auto arena = [&](bool training) {
      return double(DryPlan(int8_config("resnet50"), 224, 224, 16, {.storage = storage, .training = training})
                        .plan.arena_bytes());
    };
    EXPECT_LT(arena(false), 0.25 * arena(true)) << name_of(storage);
    std::printf("ResNet-50, storage %s: the arena of evaluation is %.3f of that of training\n", name_of(storage),
                arena(false) / arena(true));
  }
  Config config = int8_config();
  config.train.lr = 0;
  Harness h(config, make_reference_backend(), 4, 16, {.poison = true});
  h.train(0);
  const double first = h.evaluate();
  h.train(1);
  EXPECT_NE(first, 0);
  Harness own(config, make_reference_backend(), 4, 16, {.own_slots = true});
  own.train(0);
  EXPECT_EQ(own.evaluate(), first);
}

// A group of the whole batch is the batch; smaller groups have other statistics, with the same bits on every backend.
TEST(Plan, NormGroupsDivideTheBatch) {
  const auto weights = [](int64_t group, std::unique_ptr<Backend> backend, const char* exchange = "int8",
                          const char* storage = "bf16") {
    Config config = int8_config();
    config.train.norm_group = group;
    config.comm.exchange = exchange;
    Harness h(config, std::move(backend), 4, 16, {.storage = storage == std::string("int8") ? DType::s8 : DType::bf16});
    for (int64_t i = 0; i < 3; ++i) h.train(i);
    return h.weights();
  };
  const auto whole = weights(0, make_reference_backend());
  EXPECT_EQ(weights(4, make_reference_backend()), whole);
  EXPECT_NE(weights(2, make_reference_backend()), whole);
  for (const char* storage : {"bf16", "int8"}) {
    const auto two = weights(2, make_cpu_backend({Isa::scalar, 1}), "exact", storage);
    EXPECT_EQ(weights(2, make_cpu_backend({best_isa(), 2}), "exact", storage), two) << storage;
    EXPECT_NE(weights(2, make_cpu_backend({best_isa(), 2}), "fp32", storage), two) << storage;
  }
  EXPECT_THROW(weights(3, make_reference_backend()), Error);
}

// A gradient that fixed point cannot hold is treated like one that is not finite.
TEST(Plan, GradientsBeyondFixedPointAreNotFinite) {
  Config config = int8_config();
  config.train.norm_group = 2;
  config.comm.exchange = "exact";
  config.train.on_nonfinite = "skip";
  Harness h(config, make_cpu_backend({best_isa(), 2}), 4, 16, {});
  h.train(0);
  const auto before = h.weights();
  for (float& weight : std::span(h.param("fc.weight").master.f32(), 640)) weight *= 1e6f;
  for (float& pixel : h.images) pixel *= 1e6f;
  EXPECT_TRUE(h.run(h.batch_of(1)).skipped);
  EXPECT_EQ(before.size(), h.weights().size());
}

// With held ranges an image's logits depend on that image and the weights alone.
TEST(Plan, EvaluationDoesNotDependOnTheBatch) {
  Config config = int8_config();
  Harness four(config, make_cpu_backend({best_isa(), 2}), 4, 16, {});
  for (int64_t i = 0; i < 3; ++i) four.train(i);
  Harness one(config, make_cpu_backend({best_isa(), 1}), 1, 16, {});
  for (size_t i = 0; i < one.params().size(); ++i)
    std::copy_n(four.params()[i].master.f32(), four.params()[i].master.elements(), one.params()[i].master.f32());
  const auto &from = four.step->parameters().statistics(), &to = one.step->parameters().statistics();
  for (size_t i = 0; i < to.size(); ++i)
    std::copy_n(from[i].tensor.f32(), from[i].tensor.elements(), to[i].tensor.f32());
  one.step->ranges()->read();
  double sum = 0;
  for (int64_t image = 0; image < 4; ++image) {
    std::copy_n(four.images.begin() + image * 16 * 16 * 3, 16 * 16 * 3, one.images.begin());
    one.labels[0] = four.labels[size_t(image)];
    sum += one.evaluate();
  }
  EXPECT_DOUBLE_EQ(sum / 4, four.evaluate());
}

// Values beyond the range are counted, and their number raises it.
TEST(Plan, HeldRangesFollowTheActivations) {
  Harness h(int8_config(), make_cpu_backend({best_isa(), 2}), 4, 16, {});
  h.train(0);
  const ActivationRanges& ranges = *h.step->ranges();
  EXPECT_TRUE(ranges.settled());
  EXPECT_LT(ranges.saturated_share(), 1e-4);  // the first step measures before it encodes; extremes may grow by bf16
  const float before = ranges.range(0);
  for (float& pixel : h.images) pixel *= 1.5f;
  h.param("bn1.weight").master.f32()[0] *= 8;
  h.train(1);
  EXPECT_GT(ranges.saturated_share(), 0);
  EXPECT_GT(ranges.range(0), before);
}

TEST(Parameters, PlansThatDifferAreRefused) {
  Config config = int8_config();
  config.policy.activation_range = "batch";
  const auto policy = make_policy(config);
  const auto backend = make_reference_backend();
  Parameters parameters(*policy, *backend);
  const auto plan = [&](const char* name, int64_t channels) {
    Graph graph(*policy);
    const Edge y = conv(graph, name, input(graph, {8, 8}), {.out = channels});
    const Edge logits = linear(graph, "fc", global_pool(graph, "pool", y), {.out = 10, .gives_logits = true});
    softmax_loss(graph, {.heads = {{logits}}});
    const Plan built(std::move(graph), parameters, *policy, *backend, {}, 1, {});
  };
  plan("first", 8);
  plan("first", 8);
  EXPECT_THROW(plan("first", 16), Error);
  EXPECT_THROW(plan("other", 8), Error);
}

TEST(Parameters, TwoLayersOfOneNameAreRefused) {
  Config config = int8_config();
  config.policy.activation_range = "batch";
  const auto policy = make_policy(config);
  const auto backend = make_reference_backend();
  Parameters parameters(*policy, *backend);
  Graph graph(*policy);
  const Edge y = conv(graph, "same", conv(graph, "same", input(graph, {8, 8}), {.out = 8}), {.out = 8});
  const Edge logits = linear(graph, "fc", global_pool(graph, "pool", y), {.out = 10, .gives_logits = true});
  softmax_loss(graph, {.heads = {{logits}}});
  EXPECT_THROW(Plan(std::move(graph), parameters, *policy, *backend, {}, 1, {}), Error);
}

TEST(Plan, DescribesEveryNode) {
  Harness h(int8_config(), make_reference_backend(), 4, 32, {});
  const std::string text = h.plan().describe();
  for (const char* word : {"layer3.2.conv2", "conv 3x3/2", "4x8x8x64", "int8", "linear", "global pool"})
    EXPECT_NE(text.find(word), std::string::npos) << word;
}

TEST(Plan, RefusesLabelsOutOfRange) {
  Harness harness(int8_config(), make_reference_backend(), 4, 16, {});
  for (const int32_t wrong : {-2, int32_t(harness.config.model.classes)}) {
    harness.labels[3] = wrong;
    EXPECT_THROW(harness.train(0), Error) << wrong;
  }
  harness.labels[3] = -1;
  harness.train(0);
}

}  // namespace
}  // namespace octet
