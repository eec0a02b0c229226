// The losses of detection: PyTorch's numbers, labels, and equal bits on every instruction set and number of threads.
#include <gtest/gtest.h>

#include "kernels/shared/losses.h"
#include "tests/kernels/detection.h"
#include "tests/kernels/passes.h"

namespace octet::test {
namespace {

using passes::compare;
using passes::Outcome;

// The logits of tests/golden/make_detection_operations.py.
OwnedTensor golden_logits() {
  std::vector<float> x = values(20, 21, 20);
  x.insert(x.end(), {-80, 80, 0, 1e-3f});
  OwnedTensor logits({1, 1, 24, 1});
  std::copy(x.begin(), x.end(), logits.f32());
  return logits;
}
Tensor element(const OwnedTensor& of, int64_t i) { return {of.f32() + i, {1, 1, 1, 1}, DType::f32}; }

TEST(DetectionLosses, SigmoidLossIsThatOfTorchvision) {
  const auto backend = make_reference_backend();
  const OwnedTensor logits = golden_logits(), gradient({1, 1, 24, 1});
  const std::vector<std::pair<std::string, SigmoidProblem>> cases = {
      {"plain", {1, 1}}, {"focal", {1, 1, 0.25f, 2}}, {"other", {1, 1, 0.4f, 1.5f}}};
  for (const auto& [name, problem] : cases) {
    for (const int32_t label : {0, 1}) {
      const nlohmann::json& golden = detection_golden()["losses"][say("sigmoid_", name, "_", label)];
      for (int64_t i = 0; i < 24; ++i) {
        const float one = 1;
        LossReport report;
        backend->sigmoid_loss({problem, element(logits, i), &label, &one, 1, element(gradient, i), &report});
        const double loss = golden["loss"][size_t(i)], slope = golden["gradient"][size_t(i)];
        ASSERT_NEAR(report.loss_sum, loss, 1e-6 * std::max(1.0, loss)) << name << label << " at " << logits[i];
        ASSERT_NEAR(gradient[i], slope, 1e-6) << name << label << " at " << logits[i];
        ASSERT_EQ(report.count, 1);
      }
    }
  }
}

TEST(DetectionLosses, BoxLossIsThatOfPyTorch) {
  const auto backend = make_reference_backend();
  OwnedTensor predictions({6, 1, 1, 4}), targets({6, 1, 1, 4}), gradient({6, 1, 1, 4});
  const std::vector<float> x = values(24, 22, 4);
  std::copy(x.begin(), x.end(), predictions.f32());
  for (const auto& [name, beta] : {std::pair("0", 0.0f), std::pair("ninth", 1.0f / 9), std::pair("1", 1.0f)}) {
    const nlohmann::json& golden = detection_golden()["losses"][say("box_", name)];
    for (int64_t row = 0; row < 6; ++row) {
      const float one = 1;
      const int32_t label = 3;
      LossReport report;
      const auto own = [&](const OwnedTensor& of) { return Tensor{of.f32() + row * 4, {1, 1, 1, 4}, DType::f32}; };
      backend->box_loss({{1, 1, 1, beta}, own(predictions), own(targets), &label, &one, 1, own(gradient), &report});
      double loss = 0;
      for (size_t i = 0; i < 4; ++i) {
        loss += golden["loss"][size_t(row) * 4 + i].get<double>();
        ASSERT_NEAR(gradient[row * 4 + int64_t(i)], golden["gradient"][size_t(row) * 4 + i].get<double>(), 1e-6);
      }
      ASSERT_NEAR(report.loss_sum, loss, 1e-6 * std::max(1.0, loss));
    }
  }
}

// The functions without branches against those of the C library, over their whole range.
TEST(DetectionLosses, ExponentialAndLogarithmAreAccurate) {
  for (int i = 0; i < 20000; ++i) {
    const double x = -710.0 * i / 20000, want = std::exp(x), u = i / 20000.0;
    ASSERT_NEAR(decaying_exponential(x), want, x < -708 ? 3e-308 : 1e-12 * want) << x;
    ASSERT_NEAR(decaying_exponential(x / 1000), std::exp(x / 1000), 1e-12) << x;
    ASSERT_NEAR(log_one_plus(u), std::log1p(u), 1e-12 * std::log1p(u)) << u;
  }
  EXPECT_EQ(decaying_exponential(0), 1);
  EXPECT_LT(decaying_exponential(-INFINITY), 4e-308);
}

TEST(DetectionLosses, LabelsChooseClassesAndBoxes) {
  const auto backend = make_reference_backend();
  const OwnedTensor logits({2, 1, 1, 6}), gradient({2, 1, 1, 6});  // two anchors of three classes, all logits 0
  const int32_t labels[] = {2, 0, -1, 3};
  const float scale[] = {1, 0.5f};
  LossReport report;
  backend->sigmoid_loss({{2, 3}, logits, labels, scale, 2, gradient, &report});
  EXPECT_EQ(report.count, 3);
  EXPECT_NEAR(report.loss_sum, (6 + 0.5 * 3) * std::log(2.0), 1e-9);
  const float want[] = {1, -1, 1, 1, 1, 1, 0, 0, 0, 0.5f, 0.5f, -0.5f};
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(gradient[i], want[i]) << i;

  OwnedTensor predictions({3, 1, 1, 8}), targets({3, 1, 1, 4}), slopes({3, 1, 1, 8});  // regions with two choices
  for (int64_t i = 0; i < 24; ++i) predictions.f32()[i] = static_cast<float>(i);
  const int32_t shown[] = {1, 0, 1};
  const float per_region[] = {1, 1, 0.25f};
  backend->box_loss({{1, 2, 1, 0}, predictions, targets, shown, per_region, 1, slopes, &report});
  EXPECT_EQ(report.count, 2);
  EXPECT_EQ(report.loss_sum, 4 + 5 + 6 + 7 + 0.25 * (20 + 21 + 22 + 23));
  for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(slopes[i], i < 4 || (i >= 8 && i < 20) ? 0 : i < 8 ? 1 : 0.25f) << i;
}

TEST(DetectionLosses, NoPositiveGivesZeroAndNotANumberGivesNotANumber) {
  const auto backend = make_reference_backend();
  const OwnedTensor predictions({5, 1, 1, 4}), targets({5, 1, 1, 4}), gradient = random_real({5, 1, 1, 4}, 1);
  const int32_t none[] = {0, -1, 0, 0, -1}, one[] = {0, 0, 1, 0, 0};
  const std::vector<float> scale(5, 1);
  LossReport report;
  backend->box_loss({{}, predictions, targets, none, scale.data(), 1, gradient, &report});
  EXPECT_EQ(report.loss_sum, 0);
  EXPECT_EQ(report.count, 0);
  for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(gradient[i], 0);
  predictions.f32()[9] = NAN;
  backend->box_loss({{}, predictions, targets, one, scale.data(), 1, gradient, &report});
  EXPECT_TRUE(std::isnan(report.loss_sum));
  EXPECT_TRUE(std::isnan(gradient[9]));
  EXPECT_EQ(gradient[8], 0);
}

TEST(DetectionLosses, RefusesWhatDoesNotFit) {
  const OwnedTensor logits({1, 1, 2, 6}), targets({1, 1, 1, 4});
  const int32_t labels[] = {0, 0, 0, 4}, wrong[] = {0, -2, 0, 0};
  const float one = 1;
  LossReport report;
  const auto cpu = make_cpu_backend({Isa::scalar, 1}), reference = make_reference_backend();
  for (Backend* backend : {cpu.get(), reference.get()}) {
    EXPECT_THROW(backend->sigmoid_loss({{2, 3}, logits, labels, &one, 1, {}, &report}), Error);
    EXPECT_THROW(backend->sigmoid_loss({{2, 3}, logits, wrong, &one, 1, {}, &report}), Error);
    EXPECT_THROW(backend->sigmoid_loss({{2, 4}, logits, labels, &one, 1, {}, &report}), Error);
    EXPECT_THROW(backend->box_loss({{1, 1}, logits, targets, labels, &one, 1, {}, &report}), Error);
    const OwnedTensor boxes({1, 1, 1, 8});
    EXPECT_THROW(backend->box_loss({{1, 2}, boxes, targets, labels + 3, &one, 1, {}, &report}), Error) << "two choices";
  }
}

TEST(DetectionLosses, SigmoidLossHasTheSameBitsEverywhere) {
  for (const auto& [anchors, classes] : {std::pair(3, 1), std::pair(9, 80), std::pair(2, 5), std::pair(1, 300)}) {
    const Shape shape{3, 7, 11, int64_t{anchors} * classes};
    const OwnedTensor logits = random_real(shape, 4, 9);
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < shape.pixels() * anchors; ++i)
      labels.push_back(i % 3 == 0 ? -1 : i % 5 == 0 ? int32_t(i % classes) + 1 : 0);
    const float scale[] = {0.1f, 0.02f, 1};
    for (const SigmoidProblem& problem : {SigmoidProblem{anchors, classes}, SigmoidProblem{anchors, classes, 0.25f, 2},
                                          SigmoidProblem{anchors, classes, 0.3f, 1.3f}}) {
      for (const DType type : {DType::f32, DType::bf16}) {
        const auto pass = [&](Backend& backend) {
          const OwnedTensor gradient(shape, type), sum({1, 1, 1, 2});
          LossReport report, alone;
          backend.sigmoid_loss({problem, logits, labels.data(), scale, 1.0f / 3, gradient, &report});
          backend.sigmoid_loss({problem, logits, labels.data(), scale, 1.0f / 3, {}, &alone});
          EXPECT_EQ(report.loss_sum, alone.loss_sum);
          memcpy(sum.f32(), &report.loss_sum, sizeof report.loss_sum);
          return Outcome{{gradient, sum}, {uint64_t(report.count)}};
        };
        compare(pass, 0, say("sigmoid loss of ", classes, " classes"));
      }
    }
  }
}

TEST(DetectionLosses, BoxLossHasTheSameBitsEverywhere) {
  struct Case {
    Shape shape;
    BoxLossProblem problem;
  };
  for (const auto& [shape, problem] :
       {Case{{3, 7, 11, 12}, {3, 1, 77, 1.0f / 9}}, Case{{700, 1, 1, 20}, {1, 5, 1, 0}}, Case{{700, 1, 1, 4}, {}}}) {
    const OwnedTensor predictions = random_real(shape, 5),
                      targets = random_real({shape.pixels(), 1, 1, 4L * problem.boxes}, 6);
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < shape.pixels() * problem.boxes; ++i)
      labels.push_back(i % 4 == 0 ? -1 : i % 3 == 0 ? 0 : int32_t(i % 4) + 1);
    const OwnedTensor scale = random_real({1, 1, 1, shape.pixels()}, 7);
    for (const DType type : {DType::f32, DType::bf16}) {
      const auto pass = [&, &problem = problem, &shape = shape](Backend& backend) {
        const OwnedTensor gradient = random_real(shape, 8, 1, type), sum({1, 1, 1, 2});
        LossReport report;
        backend.box_loss({problem, predictions, targets, labels.data(), scale.f32(), 0.125f, gradient, &report});
        memcpy(sum.f32(), &report.loss_sum, sizeof report.loss_sum);
        return Outcome{{gradient, sum}, {uint64_t(report.count)}};
      };
      compare(pass, 0, "box loss");
    }
  }
}

TEST(DetectionLosses, WeightsOfSoftmaxScaleRows) {
  const OwnedTensor logits = random_real({9, 1, 1, 4}, 1, 5), one({9, 1, 1, 4}), weighted({9, 1, 1, 4});
  const std::vector<int32_t> labels = {0, 1, 2, 3, -1, 0, 1, 2, 3};
  const std::vector<float> ones(9, 1), weights = {1, 0, 0.5f, 2, 7, 0, 0.25f, 0.125f, 1};
  const auto backend = make_reference_backend();
  LossReport plain, same, report, row;
  backend->softmax_loss({logits, labels.data(), nullptr, 0.1f, 0.5f, one, &plain});
  backend->softmax_loss({logits, labels.data(), ones.data(), 0.1f, 0.5f, weighted, &same});
  EXPECT_EQ(same.loss_sum, plain.loss_sum);
  EXPECT_EQ(memcmp(weighted.f32(), one.f32(), one.view().bytes()), 0);
  backend->softmax_loss({logits, labels.data(), weights.data(), 0.1f, 0.5f, weighted, &report});
  EXPECT_EQ(report.count, 8);
  double sum = 0;
  for (int64_t n = 0; n < 9; ++n) {
    backend->softmax_loss({logits.view().images(n, 1), &labels[size_t(n)], nullptr, 0.1f, 0.5f, {}, &row});
    sum += row.loss_sum * weights[size_t(n)];
    for (int64_t k = 0; k < 4; ++k) EXPECT_FLOAT_EQ(weighted[n * 4 + k], one[n * 4 + k] * weights[size_t(n)]);
  }
  EXPECT_NEAR(report.loss_sum, sum, 1e-8);
  const auto pass = [&](Backend& on) {
    const OwnedTensor gradient({9, 1, 1, 4});
    on.softmax_loss({logits, labels.data(), weights.data(), 0.1f, 0.5f, gradient, &report});
    return Outcome{{gradient}, {bits_of(static_cast<float>(report.loss_sum))}};
  };
  compare(pass, 0, "weighted softmax");
}

}  // namespace
}  // namespace octet::test
