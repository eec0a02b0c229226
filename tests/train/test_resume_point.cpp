// Which of the checkpoints a resumed run takes.
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <functional>
#include <sstream>

#include "src/run/arithmetic.h"
#include "src/run/resume_point.h"
#include "tests/train/temporary_directory.h"

namespace octet {
namespace {

class ResumePoint : public ::testing::Test {
 protected:
  ResumePoint() {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(warnings)));
    other.model.name = "mobilenet_v2";
    begin(mine);
  }
  ~ResumePoint() override { spdlog::set_default_logger(logger); }

  void begin(const Config& config) const { write_file(directory / "config.yaml", to_yaml(config)); }
  void save(int64_t step, const Config& config, const std::string& data = "here") {
    store.save(step, {}, {{"config", to_yaml(config)}, {"data", data}, {arithmetic_key, std::to_string(arithmetic)}});
  }
  // The step from which a run with this configuration goes on; 0: there are no checkpoints.
  int64_t step_for(const Config& now, std::optional<int64_t> finished = {}) {
    return resume_point(store, directory.path(), now, {"here", "images"}, finished).step;
  }

  const TemporaryDirectory directory;
  CheckpointStore store{directory.path(), 9};
  Config mine, other;
  std::ostringstream warnings;
  const std::shared_ptr<spdlog::logger> logger = spdlog::default_logger();
};

Config changed(Config config, const std::function<void(Config&)>& change) {
  change(config);
  return config;
}

TEST_F(ResumePoint, IsTheNewest) {
  EXPECT_EQ(step_for(mine), 0);
  for (const int64_t step : {10, 20}) save(step, mine);
  EXPECT_EQ(step_for(mine), 20);
  EXPECT_EQ(warnings.str(), "");
}

TEST_F(ResumePoint, CheckpointsOfAnotherNetworkAreLeftOut) {
  for (const int64_t step : {10, 20}) save(step, mine);
  for (const int64_t step : {30, 40}) save(step, other);
  EXPECT_EQ(step_for(mine), 20);
  for (const char* step : {"40", "30"})
    EXPECT_PART(warnings.str(), std::string("step-000000") + step +
                                    ".safetensors is of another run: it was made with `model.name: mobilenet_v2`, "
                                    "not with `model.name: resnet20`; it is not used");
}

TEST_F(ResumePoint, AllOfAnotherNetworkAreRefused) {
  for (const int64_t step : {10, 20}) save(step, other);
  EXPECT_THROW(step_for(mine), UsageError);
  const std::string message = refusal([&] { step_for(mine); });
  EXPECT_PART(message, "step-00000020.safetensors is of another run: it was made with `model.name: mobilenet_v2`");
  EXPECT_PART(message, "fix: ");
}

TEST_F(ResumePoint, AnotherConfigurationIsRefused) {
  for (const int64_t step : {10, 20}) save(step, mine);
  EXPECT_THROW(step_for(other), UsageError);
  EXPECT_PART(
      refusal([&] { step_for(other); }),
      "step-00000020.safetensors: the run was started with `model.name: resnet20`, now it is `model.name: mobi");
}

// An older checkpoint would fit, but then what the run has done since would be lost.
TEST_F(ResumePoint, TheRunsOwnChangesAreNotTakenBack) {
  const Config longer = changed(mine, [](Config& config) { config.train.epochs *= 2; });
  const Config lenient = changed(longer, [](Config& config) { config.data.bad_images = "skip"; });
  save(10, mine);
  begin(longer);
  save(20, longer);
  EXPECT_PART(refusal([&] { step_for(mine); }), "step-00000020.safetensors: the run was started with `train.epochs: ");
  begin(lenient);  // and was stopped before a checkpoint
  EXPECT_EQ(step_for(longer), 20);
  save(30, lenient);
  EXPECT_PART(refusal([&] { step_for(longer); }), "started with `data.bad_images: skip`");
  EXPECT_EQ(warnings.str(), "");
}

// The sizes of the images refuse another view than `auto` took, unless they are skipped then.
TEST_F(ResumePoint, TheViewOfBoxesMayBeNamed) {
  save(10, mine);
  Config named = changed(mine, [](Config& config) { config.data.turn_upright = "true"; });
  EXPECT_EQ(step_for(named), 10);
  named.data.bad_images = "skip";
  EXPECT_PART(refusal([&] { step_for(named); }), "started with `data.turn_upright: auto`");
  named.data.bad_images = "stop";
  begin(named);
  save(20, named);
  EXPECT_PART(refusal([&] { step_for(mine); }), "started with `data.turn_upright: true`");
}

TEST_F(ResumePoint, AnotherArithmeticIsRefused) {
  store.save(10, {}, {{"config", to_yaml(mine)}, {"data", "here"}});  // the first one had no number
  EXPECT_THROW(step_for(mine), UsageError);
  EXPECT_PART(refusal([&] { step_for(mine); }), "step-00000010.safetensors was made by an earlier octet");
  EXPECT_PART(refusal([&] { step_for(mine); }), std::string("octet of commit ") + last_commits[0] + ", or start a new");
  EXPECT_EQ(step_for(mine, 10), 10);  // nothing is left to compute
  EXPECT_THROW(step_for(mine, 20), UsageError);
  const std::string later = std::to_string(arithmetic + 1);
  store.save(20, {}, {{"config", to_yaml(mine)}, {"data", "here"}, {arithmetic_key, later}});
  EXPECT_PART(refusal([&] { step_for(mine); }), "step-00000020.safetensors was made by a later octet");
}

TEST_F(ResumePoint, MoreEpochsAreAWarning) {
  save(10, mine);
  EXPECT_EQ(step_for(changed(mine, [](Config& config) { config.train.epochs *= 2; })), 10);
  EXPECT_PART(warnings.str(), "the run was planned for ");
}

// It is the only witness of what the run was.
TEST_F(ResumePoint, WithoutTheRunsConfigurationNothingIsLeftOut) {
  save(10, mine);
  save(20, other);
  for (const char* text : {"", "model: [:"}) {
    write_file(directory / "config.yaml", text);
    EXPECT_PART(refusal([&] { step_for(mine); }),
                "step-00000020.safetensors: the run was started with `model.name: mobi");
  }
}

TEST_F(ResumePoint, CheckpointsOfOtherDataAreLeftOut) {
  save(20, mine, "elsewhere");
  EXPECT_THROW(step_for(mine), UsageError);
  EXPECT_PART(refusal([&] { step_for(mine); }), "step-00000020.safetensors was trained on other data than images");
  save(10, mine);
  write_file(directory / "checkpoints/latest", "step-00000020.safetensors\n");
  EXPECT_EQ(step_for(mine), 10);
  EXPECT_PART(warnings.str(), "step-00000020.safetensors was trained on other data than images; it is not used");
}

TEST_F(ResumePoint, DamagedOnesAreWarnings) {
  for (const int64_t step : {10, 20}) save(step, mine);
  write_file(directory / "checkpoints/step-00000020.safetensors", "half");
  EXPECT_EQ(step_for(mine), 10);
  EXPECT_PART(warnings.str(), "step-00000020.safetensors");
  write_file(directory / "checkpoints/step-00000010.safetensors", "half");
  EXPECT_THROW(step_for(mine), NoCheckpointError);
}

}  // namespace
}  // namespace octet
