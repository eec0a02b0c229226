// The clip coordinator against brute force: real stochastic rounding of real numbers, every clip tried.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "comm/transport.h"
#include "kernels/shared/encode.h"
#include "src/quant/clip.h"

namespace octet {
namespace {

double uniform(uint64_t i, int draw) { return (philox(i, 9, uint32_t(draw), 4).word[0] + 0.5) / 4294967296.0; }

// Distributions as sharp and wide as gradients are.
std::vector<float> sample(const std::string& kind, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const double sign = uniform(i, 1) < 0.5 ? -1 : 1, u = uniform(i, 2);
    const double normal = std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * uniform(i, 3));
    if (kind == "normal") values[i] = float(1e-3 * normal);
    if (kind == "laplace") values[i] = float(-1e-5 * sign * std::log(u));
    if (kind == "lognormal") values[i] = float(1e-7 * sign * std::exp(2.5 * normal));
    if (kind == "mostly zero") values[i] = uniform(i, 4) < 0.7 ? 0 : float(-1e-2 * sign * std::log(u));
    if (kind == "outliers") values[i] = float(-1e-4 * sign * std::log(u) * (i % 100000 == 7 ? 40 : 1));
  }
  return values;
}

std::vector<int64_t> histogram_of(const std::vector<float>& values) {
  std::vector<int64_t> histogram(histogram_bins);
  for (float x : values) ++histogram[histogram_bin(x)];
  return histogram;
}

double true_distance(const std::vector<float>& values, float clip, int qmax = 127,
                     Rounding rounding = Rounding::stochastic) {
  const float inverse = inverse_scale_of(clip, qmax);
  double dot = 0, gg = 0, qq = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double g = values[i];
    const double q = rounding == Rounding::nearest
                         ? encode_nearest(values[i], inverse, -qmax, qmax)
                         : encode_stochastic(values[i], inverse, qmax, random_bits16({1, 2, 3, 0}, i));
    dot += g * q;
    gg += g * g;
    qq += q * q;
  }
  return 1 - dot / std::sqrt(gg * qq);
}

class Distributions : public testing::TestWithParam<const char*> {};

TEST_P(Distributions, ChosenClipIsTheExhaustiveOptimum) {
  const std::vector<float> values = sample(GetParam(), 400000);
  const ClipChoice choice = choose_clip(histogram_of(values), 127, 65, true);
  float largest = 0;
  for (float x : values) largest = std::max(largest, std::abs(x));
  double best = 1;
  for (int i = 0; i < 120; ++i) best = std::min(best, true_distance(values, largest * float(std::pow(0.5, i / 20.0))));
  const double chosen = true_distance(values, choice.clip);
  EXPECT_LT(chosen, best * 1.02 + 1e-7);
  EXPECT_NEAR(choice.cosine_distance, chosen, 0.06 * chosen);  // the estimate that phi is computed from
  std::printf("%-12s clip/absmax %.3f  d_c %.3e  exhaustive %.3e  estimate %.3e\n", GetParam(), choice.clip / largest,
              chosen, best, choice.cosine_distance);
}

TEST_P(Distributions, ClipOfFewNearestLevelsIsTheExhaustiveOptimum) {
  const std::vector<float> values = sample(GetParam(), 100000);
  float largest = 0;
  for (float x : values) largest = std::max(largest, std::abs(x));
  for (int qmax : {1, 3, 7, 63}) {
    const ClipChoice choice = choose_clip(histogram_of(values), qmax, 32, true, Rounding::nearest);
    double best = 1;
    for (int i = 0; i < 120; ++i)
      best = std::min(best, true_distance(values, largest * float(std::pow(0.5, i / 20.0)), qmax, Rounding::nearest));
    const double chosen = true_distance(values, choice.clip, qmax, Rounding::nearest);
    EXPECT_LT(chosen, best * 1.03 + 1e-7) << "qmax " << qmax;
    EXPECT_NEAR(choice.cosine_distance, chosen, 0.03 * chosen + 1e-6) << "qmax " << qmax;
  }
}

TEST(ChooseClip, TernaryNormalWeightsTakeLloydsQuantizer) {
  const std::vector<float> values = sample("normal", 400000);  // of deviation 1e-3
  const ClipChoice choice = choose_clip(histogram_of(values), 1, 32, true, Rounding::nearest);
  EXPECT_NEAR(choice.clip, 1.224e-3, 0.03e-3);       // Max (1960), 3 levels: thresholds 0.612, levels 1.224 deviations
  EXPECT_NEAR(choice.cosine_distance, 0.10, 0.005);  // cos^2 = 1 - 0.1902
}
INSTANTIATE_TEST_SUITE_P(Sharp, Distributions,
                         testing::Values("normal", "laplace", "lognormal", "mostly zero", "outliers"));

TEST(ChooseClip, WithoutSearchKeepsTheLargestMagnitude) {
  const std::vector<float> values = sample("laplace", 100000);
  float largest = 0;
  for (float x : values) largest = std::max(largest, std::abs(x));
  const ClipChoice choice = choose_clip(histogram_of(values), 127, 65, false);
  EXPECT_GE(choice.clip, largest);
  EXPECT_LT(choice.clip, largest * 1.02f);
  EXPECT_EQ(choice.saturated, 0);
}

TEST(ChooseClip, NothingToSeeGivesAPositiveClip) {
  std::vector<int64_t> empty(histogram_bins);
  empty[0] = 1000;  // all zeros
  const ClipChoice choice = choose_clip(empty, 127, 65, true);
  EXPECT_GT(choice.clip, 0);
  EXPECT_EQ(choice.cosine_distance, 0);
}

TEST(LearningRateScale, IsEquationEight) {
  EXPECT_FLOAT_EQ(learning_rate_scale(0, 20, 0.1), 1);
  EXPECT_FLOAT_EQ(learning_rate_scale(0.01f, 20, 0.1), float(std::exp(-20 * double(0.01f))));
  EXPECT_FLOAT_EQ(learning_rate_scale(0.5f, 20, 0.1), 0.1f);
}

Config::Policy policy(int64_t period) {
  Config::Policy policy;
  policy.clip.period = period;
  return policy;
}

TEST(ClipCoordinator, IsDueAtPowersOfTwoThenEveryPeriod) {
  const auto transport = make_self_transport();
  const auto backend = make_reference_backend();
  const ClipCoordinator clips(policy(100), *transport, *backend);
  std::vector<int64_t> due;
  for (int64_t step = 0; step <= 300; ++step)
    if (clips.due(step)) due.push_back(step);
  EXPECT_EQ(due, (std::vector<int64_t>{0, 1, 2, 4, 8, 16, 32, 64, 100, 200, 300}));
  const ClipCoordinator always(policy(1), *transport, *backend);
  for (int64_t step = 0; step < 10; ++step) EXPECT_TRUE(always.due(step));
}

TEST(ClipCoordinator, UpdatesAtDueStepsAndSurvivesARestore) {
  const auto transport = make_self_transport();
  const auto backend = make_reference_backend();
  ClipCoordinator clips(policy(10), *transport, *backend);
  const int layer = clips.add_layer("conv");
  const std::vector<float> values = sample("laplace", 50000);
  const auto observe = [&](int64_t step) {
    clips.begin(step);
    const Probe probe = clips.probe(layer, int64_t(values.size()));
    if (probe.histogram)
      for (float x : values) ++probe.histogram[histogram_bin(x)];
    return probe.histogram != nullptr;
  };
  EXPECT_EQ(*clips.clip(layer), 0);
  clips.begin(0);  // a step that is skipped: of no use, and neither is what was primed in it
  clips.prime(layer);
  EXPECT_TRUE(clips.settled());
  clips.postpone();
  EXPECT_FALSE(clips.settled());
  EXPECT_EQ(*clips.clip(layer), 0);
  EXPECT_TRUE(clips.due(3));

  EXPECT_TRUE(observe(0));
  clips.prime(layer);
  const float primed = *clips.clip(layer);
  EXPECT_GT(primed, 0);
  EXPECT_TRUE(observe(0));
  EXPECT_TRUE(clips.update());
  EXPECT_EQ(*clips.clip(layer), primed);
  EXPECT_GT(*clips.lr_scale(layer), 0.9f);
  EXPECT_FALSE(observe(3));

  ClipCoordinator other(policy(10), *transport, *backend);
  other.add_layer("conv");
  other.restore(clips.state());
  EXPECT_EQ(*other.clip(0), primed);
  EXPECT_EQ(*other.lr_scale(0), *clips.lr_scale(layer));
}

TEST(ClipCoordinator, ASampleOfALargeGradientFindsNearlyTheSameClip) {
  const auto transport = make_self_transport();
  const auto backend = make_reference_backend();
  const std::vector<float> values = sample("laplace", 1 << 19);
  const auto clip_of = [&](int64_t of) {
    Config::Policy config = policy(10);
    config.clip.sample = of;
    ClipCoordinator clips(config, *transport, *backend);
    const int layer = clips.add_layer("conv");
    clips.begin(0);
    EXPECT_EQ(clips.probe(layer, 1000).sample, 1);  // small: all of it
    const Probe probe = clips.probe(layer, int64_t(values.size()));
    EXPECT_EQ(probe.sample, of);
    for (size_t i = 0; i < values.size(); ++i)
      if (counted(int64_t(i), probe.sample)) ++probe.histogram[histogram_bin(values[i])];
    EXPECT_TRUE(clips.update());
    return *clips.clip(layer);
  };
  const float all = clip_of(1), quarter = clip_of(4);
  EXPECT_NEAR(quarter, all, 0.15f * all);  // the optimum is flat
}

TEST(ClipCoordinator, ForcedSearchesMayCountFewer) {
  const auto transport = make_self_transport();
  const auto backend = make_reference_backend();
  const auto samples = [&](int64_t forced) {  // of step 0, due by its number, and of 3, which is forced
    Config::Policy config = policy(10);
    config.clip.sample = 2, config.clip.forced_sample = forced;
    ClipCoordinator clips(config, *transport, *backend);
    const int layer = clips.add_layer("conv");
    std::vector<int> found;
    std::vector<bool> apart;
    for (const int64_t step : {0, 3}) {
      clips.begin(step);
      found.push_back(clips.probe(layer, 1 << 20).sample);
      apart.push_back(clips.samples_as_forced());
      clips.postpone();  // forces the next
    }
    return std::pair(found, apart);
  };
  EXPECT_EQ(samples(0), std::pair(std::vector{2, 2}, std::vector{false, false}));
  EXPECT_EQ(samples(8), std::pair(std::vector{2, 8}, std::vector{false, true}));
}

TEST(ClipCoordinator, UnforeseenSaturationForcesARefresh) {
  const auto transport = make_self_transport();
  const auto backend = make_reference_backend();
  ClipCoordinator clips(policy(1000), *transport, *backend);
  clips.add_layer("conv");
  clips.begin(700);
  const double few[] = {50, 1e6}, many[] = {500, 1e6};
  clips.judge(few);
  EXPECT_FALSE(clips.due(701));
  clips.judge(many);
  EXPECT_TRUE(clips.due(701));
}

// Zeros never saturate. Half of 1e-4 more than foreseen is little in a dense gradient and much among 999 of 1000 zeros.
TEST(ClipCoordinator, SaturationIsJudgedBesideTheElementsThatAreNotZero) {
  const auto transport = make_self_transport();
  const auto backend = make_reference_backend();
  for (const bool sparse : {false, true}) {
    ClipCoordinator clips(policy(1000), *transport, *backend);
    const int layer = clips.add_layer("conv");
    clips.begin(0);
    uint32_t* const histogram = clips.probe(layer, 1000).histogram;
    for (const float x : sample("laplace", 50'000)) ++histogram[histogram_bin(x)];
    if (sparse) histogram[0] += 49'950'000;
    EXPECT_TRUE(clips.update());
    clips.begin(700);
    clips.judge(std::vector<double>{4 * double(clips.state().choices[0].saturated) + 0.5e-4, 1});
    EXPECT_EQ(clips.due(701), sparse);
  }
}

TEST(ClipCoordinator, AGradientOfZerosKeepsAKnownClip) {
  const auto transport = make_self_transport();
  const auto backend = make_reference_backend();
  ClipCoordinator clips(policy(1000), *transport, *backend);
  const int layer = clips.add_layer("conv");
  const auto observe = [&](float value) {
    clips.begin(0);
    clips.probe(layer, 1000).histogram[histogram_bin(value)] = 1000;
    EXPECT_TRUE(clips.update());
    return *clips.clip(layer);
  };
  const float smallest = observe(0);
  clips.begin(700);
  clips.judge(std::vector<double>{1, 1e6});  // the first element that is not zero lies beyond
  EXPECT_TRUE(clips.due(701));
  const float known = observe(0.25f);
  EXPECT_GT(known, smallest);
  EXPECT_EQ(observe(0), known);
}

}  // namespace
}  // namespace octet
