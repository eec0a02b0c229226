// Detectors of two stages: regions and their samples are functions of the batch and the seed alone.
#include <cmath>

#include "tests/graph/harness.h"

namespace octet {
namespace {

constexpr int64_t samples = 4, side = 64;

Config small(const std::string& policy, const std::string& detector = "faster_rcnn",
             const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {
      "policy.name=" + policy, "model.name=" + detector, "model.anchor_sizes=[8, 16, 32, 64]",
      "rpn.before_nms=64",     "rpn.after_nms=32",       "rpn.before_nms_test=64",
      "rpn.after_nms_test=32", "rpn.samples=64",         "roi.samples=24",
      "train.lr=0.02"};
  if (detector == "faster_rcnn") settings.emplace_back("model.neck_channels=16");
  settings.insert(settings.end(), more.begin(), more.end());
  return parse_config("model: {classes: 3, backbone: resnet18, head_channels: 32}\n", "test.yaml", settings);
}

// Every image has two objects, but the second, which has none, and the last, which could not be read.
Truth truth_of_batch() {
  Truth truth;
  for (int64_t n = 0; n < samples; ++n) {
    const uint32_t count = n == 1 ? 0 : 2;
    truth.images.push_back({.index = n == samples - 1 ? -1 : n,
                            .width = side,
                            .height = side,
                            .content_width = side,
                            .content_height = n == 0 ? 48 : int32_t(side),
                            .first = uint32_t(truth.objects.size()),
                            .count = count});
    const auto shift = float(3 * n);
    if (count > 0) truth.objects.push_back({{2 + shift, 4, 26 + shift, 30}, int32_t(n % 3)});
    if (count > 0) truth.objects.push_back({{30, 10 + shift, 60, 36 + shift}, int32_t((n + 1) % 3)});
  }
  return truth;
}

struct TwoStage : Harness {
  Truth truth = truth_of_batch();
  TwoStage(const Config& c, int threads, PlanOptions options = {})
      : Harness(c, make_cpu_backend({best_isa(), threads}), samples, side, options) {}

  Batch of(int64_t index) const {
    Batch own = batch_of(index);
    own.targets = {.truth = &truth};
    return own;
  }
  Scalars run(int64_t index) { return Harness::run(of(index)).figures; }
  std::vector<Detection> detect() {
    step->begin_evaluation();
    return step->evaluate(of(0)).detections;
  }
};

double figure(const Scalars& figures, const std::string& name) {
  const auto found = std::ranges::find(figures, name, &Scalar::name);
  if (found == figures.end()) ADD_FAILURE() << "no figure " << name;
  return found == figures.end() ? NAN : found->value;
}

std::vector<float> weights_after(TwoStage& network, int64_t steps) {
  for (int64_t i = 0; i < steps; ++i) network.run(i);
  return network.weights();
}

class TwoStages : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Detectors, TwoStages, testing::Values("faster_rcnn", "faster_rcnn_c4", "rfcn"));

TEST_P(TwoStages, ThreadsAndSharedMemoryChangeNoBit) {
  const Config config = small("unified_int8", GetParam(), {"roi.samples=8"});
  TwoStage one(config, 1), two(config, 2), apart(config, 2, {.own_slots = true, .poison = true});
  const std::vector<float> expected = weights_after(one, 3);
  EXPECT_EQ(weights_after(two, 3), expected);
  EXPECT_EQ(weights_after(apart, 3), expected);
  const std::vector<Detection> found = one.detect(), again = apart.detect();
  ASSERT_EQ(found.size(), again.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].score, again[i].score);
}

TEST_P(TwoStages, LossesAreNamedAndFall) {
  for (const std::string policy : {"unified_int8", "fp32"}) {
    if (policy == "fp32" && GetParam() != std::string("faster_rcnn")) continue;  // the others take long
    TwoStage network(small(policy, GetParam(), {"roi.samples=8", "train.lr=0.005"}), 2);
    const Scalars first = network.run(0);
    std::vector<std::string> names;
    for (const Scalar& figure : first) names.push_back(figure.name);
    EXPECT_EQ(names, (std::vector<std::string>{"loss", "loss_objectness", "loss_rpn_box", "anchors_found", "loss_class",
                                               "loss_box", "regions_found"}));
    double sum = 0;
    for (size_t i = 1; i < first.size(); ++i) {
      EXPECT_GT(first[i].value, 0) << first[i].name;
      if (first[i].name.starts_with("loss_")) sum += first[i].value;
    }
    EXPECT_NEAR(first[0].value, sum, 1e-12);
    for (int64_t i = 1; i < 20; ++i) network.run(i);
    const Scalars last = network.run(20);
    EXPECT_LT(last[0].value, 0.7 * first[0].value) << policy;
  }
}

TEST(TwoStage, DetectionsLieInTheirImages) {
  TwoStage network(small("unified_int8"), 2);
  for (int64_t i = 0; i < 40; ++i) network.run(i);
  const std::vector<Detection> found = network.detect();
  EXPECT_GT(found.size(), 0u);
  for (const Detection& detection : found) {
    ASSERT_TRUE(detection.image >= 0 && detection.image < samples - 1) << detection.image;
    const Truth::Image& of = network.truth.images[size_t(detection.image)];
    EXPECT_GT(detection.score, 0.05);
    EXPECT_TRUE(detection.box.x >= 0 && detection.box.x + detection.box.width <= of.content_width);
    EXPECT_TRUE(detection.box.y >= 0 && detection.box.y + detection.box.height <= of.content_height);
  }
}

TEST_P(TwoStages, ABatchWithoutObjectsTrains) {
  TwoStage network(small("unified_int8", GetParam(), {"roi.samples=8"}), 2);
  for (Truth::Image& image : network.truth.images) image.count = 0;
  network.truth.objects.clear();
  for (int64_t i = 0; i < 3; ++i) {
    const StepReport report = network.Harness::run(network.of(i));
    EXPECT_FALSE(report.skipped);
    EXPECT_TRUE(std::isfinite(report.figures[0].value));
    for (const char* none : {"loss_rpn_box", "anchors_found", "loss_box", "regions_found"})
      EXPECT_EQ(figure(report.figures, none), 0) << none;
  }
}

// Of 24 regions of each image with objects, four train. They have larger losses than the mean of all.
TEST(TwoStage, HardRegionsHaveLargerLosses) {
  TwoStage all(small("fp32"), 1), hard(small("fp32", "faster_rcnn", {"roi.hard=4"}), 1);
  const Scalars of_all = all.run(0), of_hard = hard.run(0);
  const auto regions = [](const Scalars& of) { return figure(of, "loss_class") + figure(of, "loss_box"); };
  EXPECT_EQ(figure(of_hard, "loss_objectness"), figure(of_all, "loss_objectness"));
  EXPECT_GT(regions(of_hard), regions(of_all));
  TwoStage as_many(small("fp32", "faster_rcnn", {"roi.hard=24"}), 1);
  EXPECT_NEAR(as_many.run(0)[0].value, of_all[0].value, 1e-6 * of_all[0].value);
}

TEST(TwoStage, SamplesDependOnTheSeedAndTheStep) {
  Config config = small("fp32");
  TwoStage network(config, 1);
  const std::vector<float> expected = weights_after(network, 1);
  Config other = config;
  other.seed = 2;
  TwoStage reseeded(other, 1), later(config, 1);
  for (size_t i = 0; i < network.params().size(); ++i) {  // the same initial weights
    Param& from = later.params()[i];
    std::copy_n(from.master.f32(), from.master.elements(), reseeded.params()[i].master.f32());
  }
  EXPECT_NE(weights_after(reseeded, 1), expected);
  later.run(1);
  EXPECT_NE(later.weights(), expected);
}

}  // namespace
}  // namespace octet
