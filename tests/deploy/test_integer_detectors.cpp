// Integer networks of detectors: the same objects on every backend, and the answers of the training's kernels but for
// rounding.
#include <cmath>
#include <numeric>

#include "src/deploy/fold.h"
#include "src/deploy/integer_policy.h"
#include "src/deploy/litert.h"
#include "src/deploy/network.h"
#include "src/deploy/onnx.h"
#include "src/train/training_state.h"
#include "tests/graph/harness.h"

namespace octet {
namespace {

constexpr int64_t samples = 2, side = 32;

Config detector_config(const std::string& detector) {
  std::vector<std::string> settings = {"model.name=" + detector, "detect.score=0.001", "train.lr=0.005"};
  if (detector == "retinanet" || detector == "faster_rcnn") settings.emplace_back("model.neck_channels=16");
  if (detector == "retinanet")
    settings.emplace_back("model.head_depth=2");
  else
    settings.insert(
        settings.end(),
        {"model.anchor_sizes=[8, 16, 32, 64]", "rpn.before_nms=64", "rpn.after_nms=16", "rpn.before_nms_test=32",
         detector == "faster_rcnn_c4" ? "rpn.after_nms_test=2" : "rpn.after_nms_test=8", "roi.samples=8"});
  if (detector == "faster_rcnn" || detector == "rfcn") settings.emplace_back("model.head_channels=32");
  if (detector == "faster_rcnn") settings.emplace_back("model.norm=frozen");
  return parse_config("model: {classes: 3, backbone: resnet18}\n", "test.yaml", settings);
}

Truth truth_of_batch() {
  Truth truth;
  for (int64_t n = 0; n < samples; ++n) {
    truth.images.push_back({.index = n,
                            .width = side,
                            .height = side,
                            .content_width = side,
                            .content_height = side,
                            .first = uint32_t(truth.objects.size()),
                            .count = 2});
    truth.objects.push_back({{2, 4, 14, 16}, int32_t(n)});
    truth.objects.push_back({{10, 12, 30, 28}, 2});
  }
  return truth;
}

// What a detector says of the batch: what the nodes that read real numbers read, and what they make of it.
struct Said {
  std::map<std::string, std::vector<float>> read;  // by the node that writes it
  std::vector<Detection> objects;
};

class IntegerDetector : public testing::TestWithParam<const char*> {
 protected:
  IntegerDetector()
      : config(detector_config(GetParam())),
        harness(config, make_cpu_backend({.isa = best_isa(), .threads = 2}), samples, side, {}) {
    config = harness.config;
    for (int64_t index = 0; index < 9; ++index) {  // until what the network says exceeds its roundings by far
      Batch batch = harness.batch_of(index);
      batch.targets = {.truth = &truth};
      harness.run(batch);
    }
    // No two parts of evaluation share memory, so that what nodes have read is there afterwards.
    evaluation = step(make_policy(config), make_cpu_backend({.isa = best_isa(), .threads = 2}));
    Parameters &from = harness.step->parameters(), &to = evaluation->parameters();
    for (const Param& param : from.all()) {
      const Tensor& into = std::ranges::find(to.all(), param.name, &Param::name)->master;
      std::copy_n(param.master.f32(), param.master.elements(), into.f32());
    }
    for (const Statistic& statistic : from.statistics()) {
      const Tensor& into = std::ranges::find(to.statistics(), statistic.name, &Statistic::name)->tensor;
      std::copy_n(statistic.tensor.f32(), statistic.tensor.elements(), into.f32());
    }
    to.masters_changed();
    evaluation->ranges()->read();
    evaluation->begin_evaluation();
  }

  std::unique_ptr<TrainingStep> step(std::unique_ptr<Policy> policy, std::unique_ptr<Backend> backend) const {
    return std::make_unique<TrainingStep>(
        config, *harness.transport, std::move(policy), std::move(backend),
        [&](const Policy& p, bool trains, int) { return task_of(config).network(config, p, side, side, trains); },
        TrainingStep::Options{.plan = {.own_slots = true}, .batch = samples, .threads = 2, .training = false});
  }
  Said said(TrainingStep& of) const {
    Batch batch = harness.batch_of(0);
    batch.targets = {.truth = &truth};
    Said said{.read = {}, .objects = of.evaluate(batch, true).detections};
    const auto& nodes = of.plan().graph().nodes();
    for (const auto& node : nodes)
      for (const Edge edge : node->inputs()) {
        const auto writer = std::ranges::find_if(nodes, [&](const auto& w) { return w->output().id == edge.id; });
        const Tensor values = of.plan().memory().values[size_t(edge.id)].values;
        if (values.dtype == DType::f32) said.read[(*writer)->name()] = {values.f32(), values.f32() + values.elements()};
      }
    return said;
  }
  Said integers(std::unique_ptr<Backend> backend) {
    IntegerLayers layers = fold(evaluation->plan(), evaluation->parameters(), evaluation->backend(), of_photographs);
    return said(*step(std::make_unique<IntegerPolicy>(std::move(layers)), std::move(backend)));
  }

  const Truth truth = truth_of_batch();
  Config config;
  Harness harness;
  std::unique_ptr<TrainingStep> evaluation;
};
INSTANTIATE_TEST_SUITE_P(Networks, IntegerDetector,
                         testing::Values("retinanet", "faster_rcnn", "faster_rcnn_c4", "rfcn"),
                         [](const auto& of) { return std::string(of.param); });

TEST_P(IntegerDetector, SaysTheSameOnEveryBackend) {
  const Said plain = integers(make_reference_backend());
  EXPECT_FALSE(plain.objects.empty());
  for (const Isa isa : available_isas()) {
    const Said other = integers(make_cpu_backend({.isa = isa, .threads = 3}));
    EXPECT_EQ(other.read, plain.read) << name_of(isa);
    ASSERT_EQ(other.objects.size(), plain.objects.size()) << name_of(isa);
    for (size_t i = 0; i < plain.objects.size(); ++i) EXPECT_EQ(other.objects[i].score, plain.objects[i].score);
  }
}

// The squares of all differences, relative to those of the values.
double relative_error(const std::vector<float>& differences, const std::vector<float>& values) {
  const auto squares = [](const std::vector<float>& of) {
    return std::inner_product(of.begin(), of.end(), of.begin(), 0.0);
  };
  return squares(differences) / squares(values);
}

// Of the answers for anchors. Those for regions are compared where both networks propose the same region: roundings
// change the order of proposals.
TEST_P(IntegerDetector, SaysWhatTheTrainingSays) {
  const Said training = said(*evaluation), own = integers(make_cpu_backend({.isa = best_isa(), .threads = 2}));
  constexpr size_t row = sizeof(RoiRow) / sizeof(float);
  for (const auto& [name, expected] : training.read) {
    if (!own.read.contains(name)) continue;  // codes
    const bool of_regions = !name.starts_with("rpn.") && training.read.contains("rpn.proposals") &&
                            !name.ends_with("rfcn_cls") && !name.ends_with("rfcn_bbox");
    if (name == "rpn.proposals") continue;
    std::vector<float> difference, compared;
    if (!of_regions) {
      compared = expected;
      for (size_t i = 0; i < expected.size(); ++i) difference.push_back(own.read.at(name)[i] - expected[i]);
    } else {
      const std::vector<float>&before = training.read.at("rpn.proposals"), &now = own.read.at("rpn.proposals");
      const size_t rows = before.size() / row, width = expected.size() / rows;
      size_t found = 0;
      for (size_t a = 0; a < rows; ++a)
        for (size_t b = a / (rows / samples) * (rows / samples), end = b + rows / samples; b < end; ++b) {
          double distance = 0;
          for (size_t i = 0; i < 4; ++i) distance += std::abs(before[a * row + i] - now[b * row + i]);
          if (before[a * row + 5] == 0 || now[b * row + 5] == 0 || distance > 1) continue;
          ++found;
          for (size_t i = 0; i < width; ++i) {
            compared.push_back(expected[a * width + i]);
            difference.push_back(own.read.at(name)[b * width + i] - expected[a * width + i]);
          }
          break;
        }
      EXPECT_GT(found, rows / 4) << name;
    }
    EXPECT_LT(relative_error(difference, compared), 0.02) << name;
  }
}

class DetectorFile : public IntegerDetector {
 protected:
  IntegerLayers layers() {
    return fold(evaluation->plan(), evaluation->parameters(), evaluation->backend(), of_photographs);
  }
  IntegerNetwork network() {
    return integer_network(step(std::make_unique<IntegerPolicy>(layers()), make_reference_backend())->plan(),
                           of_photographs);
  }
  std::vector<Detection> objects(const IntegerNetwork& of) const {
    TrainingStep computing(
        config, *harness.transport, std::make_unique<IntegerPolicy>(layers_of(of)),
        make_cpu_backend({.isa = best_isa(), .threads = 2}),
        [&](const Policy& policy, bool, int) { return graph_of(of, policy); },
        TrainingStep::Options{.plan = {}, .batch = samples, .threads = 2, .training = false});
    return said(computing).objects;
  }
};
class RefusedFile : public DetectorFile {};
INSTANTIATE_TEST_SUITE_P(Networks, DetectorFile, testing::Values("retinanet"));
INSTANTIATE_TEST_SUITE_P(Networks, RefusedFile, testing::Values("faster_rcnn", "rfcn"));

TEST_P(DetectorFile, HoldsTheNetwork) {
  const IntegerNetwork own = network();
  ASSERT_TRUE(own.detector.has_value());
  const std::vector<Detection> expected = integers(make_cpu_backend({.isa = best_isa(), .threads = 2})).objects;
  const std::vector<Detection> found = objects(own);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].score, expected[i].score);
  const std::pair<IntegerNetwork, OnnxForm> forms[] = {{with_file_codes(own), OnnxForm::unsigned_codes},
                                                       {with_separate_sums(own), OnnxForm::unsigned_codes},
                                                       {with_signed_codes(own), OnnxForm::signed_codes}};
  for (const auto& [of, form] : forms) {
    const NetworkFile back = read_onnx(write_onnx({of, {}}, form), "a file");
    EXPECT_EQ(difference(of, back.network), "") << int(form);
    EXPECT_TRUE(back.metadata.empty());
  }
}

TEST_P(DetectorFile, IsReadOnlyWithTheDetectorThatWasWritten) {
  std::string text = write_onnx({with_file_codes(network()), {}}, OnnxForm::unsigned_codes);
  const size_t at = text.find("ScatterND");
  ASSERT_NE(at, std::string::npos);
  text[at] = 'X';
  EXPECT_THROW(read_onnx(text, "a file"), UsageError);
}

TEST_P(DetectorFile, IsNotForLiteRt) { EXPECT_THROW(write_litert({network(), {}}), UsageError); }

TEST_P(RefusedFile, NamesTheNode) {
  try {
    network();
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("has no form in a file"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace octet
