// Whole trainings: the plan, the steps and the update through the CUDA backend end at the CPU's weights, bit by bit.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "comm/transport.h"
#include "src/train/trainer.h"

namespace octet {
namespace {

struct Result {
  std::string sha256;
  std::vector<double> losses;
  double evaluated = 0;
};

Result trained(const std::string& device, std::vector<std::string> settings, int64_t steps) {
  settings.push_back("backend.device=" + device);
  const Config config = parse_config("data: {name: synthetic, samples: 64, workers: 1}\n", "test.yaml", settings);
  const auto transport = make_self_transport();
  Trainer trainer(config, *transport);
  trainer.start(0);
  Result result;
  for (int64_t step = 0; step < steps; ++step) {
    const StepReport report = trainer.step(step, false);
    EXPECT_FALSE(report.skipped);
    result.losses.push_back(report.figures.front().value);
  }
  result.sha256 = trainer.state().weights_sha256();
  result.evaluated = trainer.evaluate()->figures().front().value;
  return result;
}

void expect_the_cpus_weights(const std::vector<std::string>& settings, int64_t steps) {
  const Result cpu = trained("cpu", settings, steps), cuda = trained("cuda", settings, steps);
  EXPECT_EQ(cuda.losses, cpu.losses);
  EXPECT_EQ(cuda.sha256, cpu.sha256);
  EXPECT_EQ(cuda.evaluated, cpu.evaluated);
}

TEST(CudaTraining, ResNet20EndsAtTheCpusWeights) {
  expect_the_cpus_weights(
      {"model.name=resnet20", "data.batch=2", "data.image_size=8", "train.lr=0.05", "policy.clip.period=7"}, 20);
}
TEST(CudaTraining, MobileNetEndsAtTheCpusWeights) {
  expect_the_cpus_weights({"model.name=mobilenet_v2", "data.batch=2", "data.image_size=8"}, 1);
}
TEST(CudaTraining, EverythingQuantizedInF32EndsAtTheCpusWeights) {
  expect_the_cpus_weights({"model.name=resnet20", "data.batch=2", "data.image_size=8", "storage=f32",
                           "policy.quantize_first=true", "policy.quantize_last=true"},
                          1);
}
TEST(CudaTraining, TwoBitWeightsEndAtTheCpusWeights) {
  expect_the_cpus_weights({"model.name=resnet20", "data.batch=2", "data.image_size=8", "policy.bits.weight=2"}, 3);
}

// Each part of a step has programs of its own, which are recorded and repeated.
TEST(CudaTraining, PartsAndAveragesEndAtTheCpusWeights) {
  std::vector<std::string> settings = {"model.name=resnet20",  "data.batch=6",     "data.image_size=8",
                                       "comm.exchange=exact",  "train.ema=0.5",    "train.norm_group=1",
                                       "policy.clip.period=3", "train.head_lr=0.2"};
  const Result whole = trained("cpu", settings, 5);
  settings.emplace_back("train.accumulate=3");
  const Result parts = trained("cuda", settings, 5);
  EXPECT_EQ(parts.sha256, whole.sha256);
  EXPECT_EQ(parts.evaluated, whole.evaluated);
  for (size_t step = 0; step < whole.losses.size(); ++step)
    EXPECT_NEAR(parts.losses[step], whole.losses[step], 1e-5 * whole.losses[step]);  // sums of parts are rounded
}

// Two stages and all norms of the backbone are frozen.
TEST(CudaTraining, FrozenDetectorEndsAtTheCpusWeights) {
  expect_the_cpus_weights(
      {"model.name=retinanet", "model.backbone=resnet18", "model.neck_channels=8", "model.head_depth=1",
       "model.norm=frozen", "model.freeze_stages=2", "data.name=shapes_detection", "data.samples=4", "data.batch=2",
       "data.image_size=64", "train.lr=0.001"},
      2);
}

// The host proposes and samples regions between the kernels: in the first steps called at once, then in a recorded
// program.
TEST(CudaTraining, FasterRcnnEndsAtTheCpusWeights) {
  const std::vector<std::string> detector = {"model.name=faster_rcnn",
                                             "model.backbone=resnet18",
                                             "model.neck_channels=8",
                                             "model.head_channels=8",
                                             "data.name=shapes_detection",
                                             "data.image_size=64",
                                             "data.batch=1",
                                             "data.samples=8",
                                             "model.anchor_sizes=[8, 12, 16, 24]",
                                             "rpn.before_nms=16",
                                             "rpn.after_nms=8",
                                             "rpn.before_nms_test=16",
                                             "rpn.after_nms_test=8",
                                             "rpn.samples=16",
                                             "roi.samples=8",
                                             "train.lr=0.01"};
  expect_the_cpus_weights(detector, 5);
}

// A GPU has the next batch sent while it computes: evaluation leaves it alone, another start forgets it.
TEST(CudaTraining, BatchesSentAheadAreThoseOfTheirSteps) {
  std::vector<std::string> weights;
  for (const std::string device : {"cpu", "cuda"}) {
    const Config config = parse_config("data: {name: synthetic, samples: 32, workers: 1, image_size: 8, batch: 2}\n",
                                       "test.yaml", {"backend.device=" + device, "model.name=resnet20"});
    const auto transport = make_self_transport();
    Trainer trainer(config, *transport);
    trainer.start(0);
    trainer.step(0, false);
    trainer.evaluate();
    trainer.step(1, false);
    trainer.start(7);
    trainer.step(7, false);
    weights.push_back(trainer.state().weights_sha256());
  }
  EXPECT_EQ(weights[0], weights[1]);
}

// Bottlenecks have data gradients that add to parts of gradients and sum for norms. A launch takes as long as much
// work: docs/cuda.md counts those of ResNet-50 with 256 images, which has 14 more for its first layer's gradient.
TEST(CudaTraining, ResNet50EndsAtTheCpusWeightsInFewLaunches) {
  const std::vector<std::string> settings = {"model.name=resnet50", "data.samples=4", "data.batch=2",
                                             "data.image_size=32", "train.lr=0.01"};
  expect_the_cpus_weights(settings, 2);
  const Config config =
      parse_config("data: {name: synthetic, samples: 64, workers: 1, image_size: 32, batch: 2}\n", "test.yaml",
                   {"backend.device=cuda", "backend.check_kernels=true", "model.name=resnet50"});
  const auto transport = make_self_transport();
  Trainer trainer(config, *transport);
  trainer.start(0);
  int64_t launches[2] = {};
  for (const int step : {0, 1}) {
    trainer.step(step, false);
    for (const KernelTime& kernel : trainer.backend().kernel_times())
      if (kernel.name.find("histogram") == std::string::npos) launches[step] += kernel.calls;  // few steps count them
  }
  EXPECT_LE(launches[1] - launches[0], 306);
}

TEST(CudaTraining, PoliciesThatComputeOnTheProcessorAreRefused) {
  for (const std::string policy : {"wage", "dorefa"}) {
    try {
      trained("cuda",
              {"policy.name=" + policy, "model.name=vgg7", "data.batch=2", "data.image_size=32", "train.momentum=0",
               "train.decay=0"},
              0);
      FAIL() << policy << " was not refused";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("policy " + policy + " computes on the processor"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace octet
