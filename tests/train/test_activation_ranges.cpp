// Files of weights hold the tensors of the network alone, and the ranges of activations beside them.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "src/train/training_state.h"
#include "src/weights/activation_ranges.h"
#include "src/weights/digest.h"
#include "tests/graph/harness.h"
#include "tests/train/temporary_directory.h"

namespace octet {
namespace {

std::unique_ptr<Harness> int8_network(const std::string& name, int64_t seed = 1) {
  Config config;
  config.model.name = name;
  config.model.classes = 3;
  config.seed = seed;
  return std::make_unique<Harness>(config, make_cpu_backend({best_isa(), 1}), 1, 64, PlanOptions{});
}

// The names of torchvision's resnet18(), without num_batches_tracked, which it counts from 0 where a file lacks it.
std::set<std::string> names_of_resnet18() {
  std::set<std::string> names = {"fc.weight", "fc.bias"};
  const auto add = [&](const std::string& conv, const std::string& norm) {
    names.insert(conv + ".weight");
    for (const char* const of : {".weight", ".bias", ".running_mean", ".running_var"}) names.insert(norm + of);
  };
  add("conv1", "bn1");
  for (int stage = 1; stage <= 4; ++stage)
    for (int block = 0; block < 2; ++block) {
      const std::string at = say("layer", stage, ".", block, ".");
      add(at + "conv1", at + "bn1");
      add(at + "conv2", at + "bn2");
      if (stage > 1 && block == 0) add(at + "downsample.0", at + "downsample.1");
    }
  return names;
}

// The state of a network with a different range for each activation.
OwnedTensors with_ranges(Harness& of) {
  OwnedTensors saved = TrainingState(*of.step).save(true);
  float range = 0.1f;
  for (size_t i = 0; i < saved.tensors.size(); ++i)
    if (is_range(saved.tensors[i].name)) saved.values[i][0] = range = std::nextafter(range * 1.1f, 100.0f);
  return saved;
}

class RangesInFiles : public ::testing::Test {
 protected:
  // Loads the file into another network, and returns the digest of all its weights and ranges.
  std::string digest_after_loading(const std::string& name) const {
    const auto other = int8_network(name, 7);
    TrainingState state(*other->step);
    const LoadedWeights loaded = state.load(SafetensorsFile::open(path), path, {});
    EXPECT_TRUE(loaded.missing.empty() && loaded.unused.empty()) << loaded.text();
    return state.weights_sha256();
  }
  std::vector<std::pair<std::string, float>> ranges_of(const std::string& entry) const {
    write_safetensors(path, {}, {{"activation_ranges", entry}});
    return read_ranges(SafetensorsFile::open(path), path);
  }

  TemporaryDirectory directory;
  const std::string path = directory / "weights.safetensors";
};

TEST_F(RangesInFiles, TensorsAreThoseOfTheNetworkAlone) {
  const auto network = int8_network("resnet18");
  const OwnedTensors saved = with_ranges(*network);
  write_weights(path, saved, {{"commit", "abc"}});
  const SafetensorsFile file = open_weights(path);
  const std::vector<std::string> names = file.names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()), names_of_resnet18());
  EXPECT_EQ(file.metadata().at("commit"), "abc");
  EXPECT_EQ(read_ranges(file, path).size(), saved.tensors.size() - names.size());
  EXPECT_GT(saved.tensors.size(), names.size() + 10);
}

TEST_F(RangesInFiles, RoundTripChangesNoBit) {
  for (const char* const name : {"resnet18", "mobilenet_v2", "alexnet"}) {
    const auto network = int8_network(name);
    const OwnedTensors saved = with_ranges(*network);
    const std::string digest = weights_sha256(saved);
    write_weights(path, saved, {});
    EXPECT_EQ(digest_after_loading(name), digest) << name;
  }
}

// As octet wrote them before ranges were metadata, and as checkpoints hold them.
TEST_F(RangesInFiles, RangesThatAreTensorsAreRead) {
  const auto network = int8_network("resnet18");
  const OwnedTensors saved = with_ranges(*network);
  std::map<std::string, std::string> metadata;
  add_digest(saved, metadata);
  write_safetensors(path, saved, metadata);
  open_weights(path);
  EXPECT_EQ(digest_after_loading("resnet18"), weights_sha256(saved));
}

// The last layer reads real numbers. Only an integer network reads the range of these, so checkpoints of earlier
// versions, which lack it, are whole.
TEST_F(RangesInFiles, OfWhatTheLastLayerReadsMayBeMissing) {
  const auto network = int8_network("alexnet");
  network->train(0);
  OwnedTensors saved = TrainingState(*network->step).save(false);
  const auto lose = [&](const std::string& name) {
    const auto at = std::ranges::find(saved.tensors, name, &NamedTensor::name);
    ASSERT_NE(at, saved.tensors.end());
    EXPECT_GT(at->values[0], 0);
    saved.tensors.erase(at);
    write_safetensors(path, saved, {});
  };
  const auto load = [&] {
    const auto other = int8_network("alexnet", 7);
    return TrainingState(*other->step).load(SafetensorsFile::open(path), path, {.optimizer = true}).missing;
  };
  lose("classifier.4.range");
  EXPECT_EQ(load(), std::vector<std::string>{"classifier.4.range"});
  lose("classifier.1.range");
  EXPECT_PART(refusal(load), "classifier.1.range");
}

TEST_F(RangesInFiles, ANegativeRangeIsRefused) {
  OwnedTensors saved = with_ranges(*int8_network("resnet18"));
  for (size_t i = 0; i < saved.tensors.size(); ++i)
    if (is_range(saved.tensors[i].name)) saved.values[i][0] = -2;
  const auto load = [&] {
    TrainingState(*int8_network("resnet18")->step).load(SafetensorsFile::open(path), path, {.optimizer = false});
  };
  write_weights(path, saved, {});
  EXPECT_PART(refusal(load), "is negative: -2");
  write_safetensors(path, saved, {});  // as a tensor
  EXPECT_PART(refusal(load), "is negative: -2");
}

TEST_F(RangesInFiles, EveryFloatIsExact) {
  std::mt19937 random(1);
  std::vector<float> values = {0,
                               -0.0f,
                               1,
                               0.1f,
                               std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::min(),
                               std::numeric_limits<float>::denorm_min(),
                               -1.5f};
  while (values.size() < 2000)
    if (const float value = std::bit_cast<float>(uint32_t(random())); std::isfinite(value)) values.push_back(value);
  OwnedTensors tensors;
  tensors.add("conv.weight", {2}, {1, 2});
  for (size_t i = 0; i < values.size(); ++i) tensors.add(say("layer", i, ".range"), {1}, {values[i]});
  write_weights(path, tensors, {});
  const auto read = read_ranges(open_weights(path), path);
  ASSERT_EQ(read.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(read[i].first, say("layer", i, ".range"));
    EXPECT_EQ(std::bit_cast<uint32_t>(read[i].second), std::bit_cast<uint32_t>(values[i])) << values[i];
  }
}

TEST_F(RangesInFiles, OtherEntriesAreRefused) {
  EXPECT_EQ(ranges_of(R"({"a.range": "0x1.8p+1"})"), (std::vector<std::pair<std::string, float>>{{"a.range", 3}}));
  for (const char* const entry : {"", "[1]", R"({"a.range": 3})", R"({"a.range": ""})", R"({"a.range": "0x"})",
                                  R"({"a.range": "3 volts"})", R"({"a.weight": "0x1p+0"})"})
    EXPECT_PART(refusal([&] { ranges_of(entry); }), "activation_ranges") << entry;
  EXPECT_PART(refusal([&] { ranges_of(std::string(1000, '[')); }), "more levels");
  for (const char* const entry : {R"({"a.range": "inf"})", R"({"a.range": "nan"})"})
    EXPECT_PART(refusal([&] { ranges_of(entry); }), "before the training diverged") << entry;
}

TEST_F(RangesInFiles, OfAnotherPolicyAreNotUsed) {
  const auto network = int8_network("resnet18");
  const OwnedTensors saved = with_ranges(*network);
  write_weights(path, saved, {});
  Config config;
  config.model.name = "resnet18";
  config.model.classes = 3;
  config.policy.name = "fp32";
  Harness real(config, make_cpu_backend({best_isa(), 1}), 1, 64, PlanOptions{});
  const LoadedWeights loaded = TrainingState(*real.step).load(SafetensorsFile::open(path), path, {});
  EXPECT_EQ(loaded.unused.size(), saved.tensors.size() - loaded.loaded);
  EXPECT_TRUE(std::ranges::all_of(loaded.unused, is_range));
}

}  // namespace
}  // namespace octet
