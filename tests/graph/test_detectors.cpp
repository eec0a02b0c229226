// Whole detectors against torchvision in double precision: losses and every gradient.
#include "tests/golden/golden_network.h"

namespace octet {
namespace {

Config config_of(const nlohmann::json& golden) {
  Config config =
      parse_config("policy: {name: fp32}\n", "golden.yaml", golden.value("settings", std::vector<std::string>{}));
  config.model.name = golden["detector"];
  config.model.backbone = "resnet18";
  config.model.classes = golden["classes"];
  if (golden.contains("frozen")) {
    config.model.norm = "frozen";
    config.model.freeze_stages = 2;
  }
  return config;
}

Truth truth_of(const nlohmann::json& golden) {
  Truth truth;
  const int32_t size = golden["image_size"];
  for (const auto& objects : golden["objects"]) {
    truth.images.push_back({.index = int64_t(truth.images.size()),
                            .width = size,
                            .height = size,
                            .content_width = size,
                            .content_height = size,
                            .first = uint32_t(truth.objects.size()),
                            .count = uint32_t(objects.size())});
    for (const auto& object : objects)
      truth.objects.push_back({{object[0], object[1], object[2], object[3]}, object[4]});
  }
  return truth;
}

void expect_torchvision(const char* file, std::unique_ptr<Backend> backend) {
  const nlohmann::json golden = golden::read(file);
  const Config config = config_of(golden);
  Harness h(config, std::move(backend), golden["batch"], golden["image_size"], {.storage = DType::f32});
  golden::fill(h, golden);
  const Truth truth = truth_of(golden);
  Batch batch = h.batch_of(0);
  batch.targets = {.truth = &truth};
  const StepReport report = h.step->run({.batch = batch, .learning_rate = 0});
  const double loss = golden["loss"];
  EXPECT_NEAR(report.figures[0].value, loss, 1e-4 * loss);
  size_t losses = 0;
  for (const Scalar& figure : report.figures) {
    if (figure.name.ends_with("_found")) {
      EXPECT_GT(figure.value, 0) << figure.name;
    }
    if (!figure.name.starts_with("loss_")) continue;
    const double part = golden["losses"][figure.name];
    EXPECT_NEAR(figure.value, part, 1e-4 * part) << figure.name;
    ++losses;
  }
  EXPECT_EQ(losses, golden["losses"].size());
  EXPECT_EQ(h.step->parameters().trained().size(), golden["parameters"].size());
  std::printf("worst relative deviation of a gradient from torchvision %.2e\n",
              golden::compare_gradients(h, golden, 1e-4));
}

class Detectors : public testing::TestWithParam<std::unique_ptr<Backend> (*)()> {};
TEST_P(Detectors, RetinaNetEqualsTorchvision) { expect_torchvision("retinanet.json", GetParam()()); }
TEST_P(Detectors, FasterRcnnEqualsTorchvision) { expect_torchvision("faster_rcnn.json", GetParam()()); }
TEST_P(Detectors, FasterRcnnOnOneMapEqualsTorchvision) { expect_torchvision("faster_rcnn_c4.json", GetParam()()); }
TEST_P(Detectors, RfcnEqualsItsDefinition) { expect_torchvision("rfcn.json", GetParam()()); }
// With FrozenBatchNorm2d and three stages that train.
TEST_P(Detectors, FrozenRetinaNetEqualsTorchvision) { expect_torchvision("retinanet_frozen.json", GetParam()()); }

std::unique_ptr<Backend> make_cpu() { return make_cpu_backend({}); }
INSTANTIATE_TEST_SUITE_P(Backends, Detectors, testing::Values(make_reference_backend, make_cpu));

}  // namespace
}  // namespace octet
