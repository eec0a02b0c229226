// The rival policies, role by role, against their formulas computed elsewhere: tests/golden/make_policies.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "kernels/shared/small_float.h"
#include "src/quant/simulation.h"
#include "tests/golden/golden.h"

namespace octet {
namespace {

using Values = std::vector<float>;

const nlohmann::json& all() {
  static const nlohmann::json json = [] {
    nlohmann::json loaded;
    std::ifstream(std::string(OCTET_SOURCE_DIR) + "/tests/golden/policies.json") >> loaded;
    return loaded;
  }();
  return json;
}

Values inputs(uint32_t salt, double factor, size_t count = 256) {
  Values values(count);
  for (size_t i = 0; i < count; ++i) values[i] = float(double(golden::value(uint32_t(i), salt)) * factor);
  return values;
}
constexpr Shape kShape{4, 1, 1, 64};
const RngKey kKey{5, 3, 17, 0};
Tensor tensor(Values& values, Shape shape = kShape) { return {values.data(), shape, DType::f32}; }

// Results lie on coarse grids, so a tolerance of float rounding is a test of exact steps.
void expect_equal(const Values& got, const char* policy, const char* role) {
  const auto& want = all()[policy][role];
  ASSERT_EQ(got.size(), want.size());
  double largest = 0;
  for (const auto& value : want) largest = std::max(largest, std::abs(value.get<double>()));
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i].get<double>(), 2e-6 * largest) << policy << " " << role << " " << i;
}

Config config_of(const std::string& name, int64_t weight_bits = 8) {
  Config config;
  config.policy.name = name;
  config.policy.bits.weight = weight_bits;
  if (name == "wage") config.train.momentum = config.train.decay = 0;
  return config;
}
Values rounded(const Policy& policy, Role role, Values values) {
  policy.simulation()->round(role, tensor(values), kKey);
  return values;
}
UpdateContext context() {
  UpdateContext context;
  context.sgd = {0.1f, 0.9f, 0, false};
  context.key = kKey;
  return context;
}

void take_step(const Policy& policy, Backend& backend, const UpdateContext& context, Tensor w, Tensor gradient,
               Tensor velocity) {
  if (const auto step = policy.update(context, w, gradient, velocity)) backend.sgd_update({&*step, 1});
}

TEST(Policies, DoReFa) {
  const auto policy = make_policy(config_of("dorefa"));
  expect_equal(rounded(*policy, Role::weight, inputs(1, 3)), "dorefa", "weight");
  expect_equal(rounded(*policy, Role::activation, inputs(2, 4)), "dorefa", "activation");
  expect_equal(rounded(*policy, Role::grad_output, inputs(3, 0.01)), "dorefa", "error");
  Values w = inputs(1, 3), a = inputs(2, 4), gw = inputs(4, 1), ga = inputs(4, 1);
  policy->simulation()->gradient_through(Role::weight, tensor(w), tensor(gw));
  expect_equal(gw, "dorefa", "weight_backward");
  policy->simulation()->gradient_through(Role::activation, tensor(a), tensor(ga));
  expect_equal(ga, "dorefa", "activation_backward");
}

Values decoded(const std::vector<int8_t>& codes, float scale) {
  Values values;
  for (const int8_t code : codes) values.push_back(static_cast<float>(code) * scale);
  return values;
}

TEST(Policies, Wage) {
  const auto policy = make_policy(config_of("wage", 2));
  const auto backend = make_reference_backend();
  for (const auto& [role, name, salt, factor] :
       {std::tuple{Role::weight, "weight", 1u, 3.0}, std::tuple{Role::activation, "activation", 2u, 4.0}}) {
    Values x = inputs(salt, factor);
    std::vector<int8_t> codes(x.size());
    float scale = 0;
    const QTensor coded{{codes.data(), kShape, DType::s8}, &scale};
    backend->quantize({tensor(x), policy->encoding(role), kKey, coded, {}});
    expect_equal(decoded(codes, scale), "wage", name);
  }
  // The clip that comes back encodes what is left without a loss.
  Values e = inputs(3, 0.01);
  const float clip = policy->round_block_gradient({.gradient = tensor(e)}, kKey);
  expect_equal(e, "wage", "value_error");
  std::vector<int8_t> codes(e.size());
  float scale = 0;
  Encoding encoding = policy->encoding(Role::grad_output);
  encoding.held = &clip;
  backend->quantize({tensor(e), encoding, kKey, {{codes.data(), kShape, DType::s8}, &scale}, {}});
  EXPECT_EQ(decoded(codes, scale), e);

  Values w, g = inputs(4, 0.3), v(256);
  for (const auto& value : all()["wage"]["start"]) w.push_back(value.get<float>());
  UpdateContext update = context();
  update.sgd.learning_rate = 8;
  take_step(*policy, *backend, update, tensor(w), tensor(g), tensor(v));
  expect_equal(w, "wage", "updated");
  for (size_t i = 0; i < all()["wage"]["fan_in"].size(); ++i)
    EXPECT_EQ(policy->weight_gain(int64_t(all()["wage"]["fan_in"][i].get<double>())),
              all()["wage"]["gain"][i].get<float>());
}

// A full-precision layer computes with w / alpha: the same steps, in that unit.
TEST(Policies, WageScalesTheWeightsOfAFullPrecisionLayer) {
  const auto policy = make_policy(config_of("wage", 2));
  const auto backend = make_reference_backend();
  const float gain = policy->weight_gain(64);
  ASSERT_LT(gain, 1);
  Values coded(256), full_precision(256), g = inputs(4, 0.3), v(256);
  policy->initialize(tensor(coded), 64, false, kKey);
  policy->initialize(tensor(full_precision), 64, true, kKey);
  UpdateContext update = context();
  update.sgd.learning_rate = 8;
  for (int step = 0; step < 2; ++step) {
    for (size_t i = 0; i < coded.size(); ++i) EXPECT_EQ(full_precision[i], gain * coded[i]);
    update.full_precision = false;
    take_step(*policy, *backend, update, tensor(coded), tensor(g), tensor(v));
    update.full_precision = true;
    take_step(*policy, *backend, update, tensor(full_precision), tensor(g), tensor(v));
  }
}

TEST(Policies, WageUbn) {
  const auto policy = make_policy(config_of("wageubn"));
  const auto backend = make_reference_backend();
  expect_equal(rounded(*policy, Role::weight, inputs(1, 3)), "wageubn", "weight");
  expect_equal(rounded(*policy, Role::activation, inputs(2, 4)), "wageubn", "activation");
  expect_equal(rounded(*policy, Role::grad_output, inputs(3, 0.01)), "wageubn", "error");
  Values e = inputs(3, 0.01);
  policy->simulation()->round(Role::grad_block, tensor(e), kKey);
  expect_equal(e, "wageubn", "value_error");

  Values x = inputs(5, 4), mean(4), variance(4), gamma(4, 1.0f), beta(4);
  for (size_t c = 0; c < 4; ++c) {
    double sum = 0, squares = 0;
    for (size_t i = c; i < 256; i += 4) sum += x[i] / 64.0, squares += double(x[i]) * x[i] / 64.0;
    mean[c] = float(sum);
    variance[c] = float(squares - sum * sum);
  }
  policy->simulation()->round_norm(
      {tensor(x, {1, 8, 8, 4}), mean.data(), variance.data(), gamma.data(), beta.data(), 1e-5f});
  expect_equal(x, "wageubn", "norm");

  Values w = inputs(1, 3), g = inputs(4, 0.3), v = inputs(6, 0.1);
  UpdateContext update = context();
  update.sgd.decay = 0.01f;
  take_step(*policy, *backend, update, tensor(w), tensor(g), tensor(v));
  expect_equal(v, "wageubn", "velocity");
  expect_equal(w, "wageubn", "updated");

  // Steps of a sixteen-thousandth move the weights, though the velocity that is kept is too coarse for them.
  Values faint(256), kept(256);
  update.sgd.decay = 0;
  update.progress = 0.95;
  take_step(*policy, *backend, update, tensor(faint), tensor(g), tensor(kept));
  const float step = 0.099609375f / 16384;  // 51/512, the learning rate on its grid
  for (size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(kept[i], 0);
    EXPECT_TRUE(faint[i] == 0 || std::abs(std::abs(faint[i]) - step) < 1.3e-7f) << faint[i];
  }
  EXPECT_GT(std::count_if(faint.begin(), faint.end(), [](float moved) { return moved != 0; }), 64);

  // A full_precision layer: plain SGD, whatever the gradient's magnitude.
  update.full_precision = true;
  update.sgd = {0.125f, 0, 0, false};
  Values full_precision(256, 1.0f), small(256, 1e-6f), still(256);
  take_step(*policy, *backend, update, tensor(full_precision), tensor(small), tensor(still));
  for (float value : full_precision) ASSERT_EQ(value, 1 - 0.125f * 1e-6f);
}

TEST(Policies, RangeBn) {
  const auto policy = make_policy(config_of("range_bn"));
  expect_equal(rounded(*policy, Role::weight, inputs(1, 3)), "range_bn", "weight");
  expect_equal(rounded(*policy, Role::grad_output, inputs(3, 0.01)), "range_bn", "error");
  Values x = inputs(2, 4);
  expect_equal(rounded(*policy, Role::activation, x), "range_bn", "activation");

  // Four samples of 16 pixels and 4 channels.
  const Shape shape{4, 4, 4, 4};
  Values mean(4), variance(4), scale(4), gamma = inputs(7, 0.5, 4), beta = inputs(8, 0.5, 4);
  for (float& value : gamma) value += 1;
  const Moments moments{mean.data(), variance.data(), nullptr, nullptr};
  policy->simulation()->measure_norm(tensor(x, shape), &moments, 1e-5f, kKey);
  expect_equal(x, "range_bn", "activation");
  for (size_t c = 0; c < 4; ++c) scale[c] = 1 / std::sqrt(variance[c] + 1e-5f);
  expect_equal(scale, "range_bn", "norm_scale");

  // A channel whose values all lie within one step of the tensor's grid keeps a range.
  Values own_mean(4), own_variance(4), faint = inputs(2, 4);
  for (size_t i = 0; i < 256; i += 4) faint[i] *= 1e-3f;
  const Moments own{own_mean.data(), own_variance.data(), nullptr, nullptr};
  policy->simulation()->measure_norm(tensor(faint, shape), &own, 1e-5f, kKey);
  EXPECT_GT(std::sqrt(own_variance[0] + 1e-5f), 1e-3f);

  // A channel that is always the same has a range of 0; the running average of its variance may fall below -epsilon.
  Values low_mean(4), low{1, -1.001e-5f, 0, 2}, ones(4, 1), zeros(4);
  policy->simulation()->round_norm({tensor(x, shape), low_mean.data(), low.data(), ones.data(), zeros.data(), 1e-5f});
  for (const float value : low) EXPECT_GT(value + 1e-5f, 0);

  // As affine_backward with frozen statistics leaves it, then completed.
  const Values dz = inputs(9, 1);
  Values d_gamma(4), d_beta(4), dx(256);
  for (size_t i = 0; i < 256; ++i) {
    const size_t c = i % 4;
    dx[i] = dz[i] * gamma[c] * scale[c];
    d_beta[c] += dz[i];
    d_gamma[c] += dz[i] * (x[i] - mean[c]) * scale[c];
  }
  policy->simulation()->norm_backward(
      {tensor(x, shape), mean.data(), variance.data(), gamma.data(), beta.data(), 1e-5f}, d_gamma.data(), d_beta.data(),
      tensor(dx, shape));
  expect_equal(dx, "range_bn", "norm_gradient");
}

TEST(Policies, PerSample) {
  const auto policy = make_policy(config_of("psq"));
  expect_equal(rounded(*policy, Role::weight, inputs(1, 3)), "psq", "weight");
  expect_equal(rounded(*policy, Role::activation, inputs(2, 4)), "psq", "activation");
  const auto errors = all()["psq"]["error_input"].get<Values>();
  const Values got = rounded(*policy, Role::grad_output, errors);
  const auto want = all()["psq"]["error"].get<Values>();
  for (size_t first = 0; first < 256; first += 64) {  // a sample, whose errors are 100 times those of the next
    float largest = 0;
    for (size_t i = first; i < first + 64; ++i) largest = std::max(largest, std::abs(want[i]));
    for (size_t i = first; i < first + 64; ++i) EXPECT_NEAR(got[i], want[i], 2e-6f * largest) << i;
  }
  expect_equal(rounded(*policy, Role::grad_output_for_weight, errors), "psq", "weight_error");
  EXPECT_EQ(rounded(*policy, Role::grad_output, Values(256, 5.0f)), Values(256, 5.0f));
}

TEST(Policies, DistributionAdaptive) {
  const auto policy = make_policy(config_of("dai8"));
  expect_equal(rounded(*policy, Role::weight, inputs(1, 3)), "dai8", "weight");
  expect_equal(rounded(*policy, Role::activation, inputs(2, 4)), "dai8", "activation");
  const auto golden = [](const char* name) { return all()["dai8"][name].get<Values>(); };
  Values before = golden("before"), now(before.size());
  ASSERT_EQ(policy->simulation()->carried_clips(4), int64_t(now.size()));
  for (const auto& [role, name] :
       {std::pair{Role::grad_output_for_weight, "weight_error"}, {Role::grad_output, "error"}}) {
    Values error = golden("error_input");
    policy->simulation()->round_gradient(role, tensor(error, {4, 4, 4, 4}), kKey, before.data(), now.data());
    expect_equal(error, "dai8", name);
  }
  expect_equal(now, "dai8", "now");

  // The last channel and the whole have long tails, and no clip before the first step.
  Values error = golden("error_input");
  const float largest = std::abs(
      *std::max_element(error.begin(), error.end(), [](float a, float b) { return std::abs(a) < std::abs(b); }));
  EXPECT_LT(now[4], 0.95f * largest);
  std::fill(before.begin(), before.end(), 0.0f);
  policy->simulation()->round_gradient(Role::grad_output, tensor(error, {4, 4, 4, 4}), kKey, before.data(), now.data());
  EXPECT_FLOAT_EQ(now[4], largest);
}

TEST(Policies, Fp8) {
  const auto policy = make_policy(config_of("fp8"));
  const auto backend = make_reference_backend();
  Values x;
  for (const auto& [salt, factor] : {std::pair{1u, 3.0}, {2u, 1e-4}, {3u, 3e5}, {4u, 1e-6}}) {
    const Values part = inputs(salt, factor, 64);
    x.insert(x.end(), part.begin(), part.end());
  }
  const Values rounded8 = rounded(*policy, Role::grad_output, x);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(rounded8[i], all()["fp8"]["rounded"][i].get<float>()) << x[i];
    EXPECT_EQ(Float16::nearest(x[i]), all()["fp8"]["rounded16"][i].get<float>()) << x[i];
  }
  Values w = inputs(1, 3), g = inputs(4, 0.3), v = inputs(6, 0.1);
  UpdateContext update = context();
  update.sgd.decay = 1e-4f;
  take_step(*policy, *backend, update, tensor(w), tensor(g), tensor(v));
  expect_equal(v, "fp8", "velocity");
  expect_equal(w, "fp8", "updated");
}

void expect_refusal(const std::function<void()>& make, const char* word) {
  try {
    make();
    ADD_FAILURE() << "no error that says " << word;
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

TEST(Policies, RefuseWhatTheyDoNotDefine) {
  for (const char* name : {"wageubn", "range_bn", "fp8", "psq", "dai8"})
    expect_refusal([&] { make_policy(config_of(name, 4)); }, "8/8/8");
  Config wage = config_of("wage", 2);
  expect_refusal([&] { make_policy(wage)->check_layer("conv1", true, 4096); }, "conv1");
  wage.policy.quantize_first = true;
  expect_refusal([&] { make_policy(wage); }, "quantize_first");
  Config dorefa = config_of("dorefa");
  dorefa.policy.quantize_first = true;
  expect_refusal([&] { make_policy(dorefa); }, "quantize_first");
  for (const int64_t pixels : {1, 16, 100})
    expect_refusal([&] { make_policy(config_of("range_bn"))->check_layer("conv1", true, pixels); },
                   "multiple of 16 for each rank, and to 32 at least");
  make_policy(config_of("range_bn"))->check_layer("conv1", true, 32);
  expect_refusal([&] { make_policy(config_of("dorefa2")); }, "dorefa2");
  for (const char* name : {"fp32", "dorefa", "wage", "wageubn", "range_bn", "fp8", "psq", "dai8"}) {
    Config config = config_of(name);
    config.policy.clip.period = 7;
    expect_refusal([&] { make_policy(config); }, "policy.clip.period");
    config = config_of(name);
    config.storage = "int8";
    expect_refusal([&] { make_policy(config); }, "keeps f32");
  }
  for (const char* name : {"wageubn", "fp8"}) {
    Config config = config_of(name);
    config.train.nesterov = true;
    expect_refusal([&] { make_policy(config); }, "Nesterov");
  }
  for (const char* name : {"wage", "wageubn", "fp8"}) {
    Config config = config_of(name);
    config.train.optimizer = "adamw";
    expect_refusal([&] { make_policy(config); }, "has an update of its own");
  }
  expect_refusal([&] { make_policy(config_of("fp32", 4)); }, "policy.bits.weight");
  Config moving = config_of("wage");
  moving.train.momentum = 0.9;
  expect_refusal([&] { make_policy(moving); }, "without momentum");
}

}  // namespace
}  // namespace octet
