// Weights of one form of a network where the recipe's images need another.
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

#include "kernels/base/text.h"
#include "src/train/network_form.h"
#include "tests/train/temporary_directory.h"

namespace octet {
namespace {

class NetworkForm : public ::testing::Test {
 protected:
  NetworkForm() {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(warnings)));
  }
  ~NetworkForm() override { spdlog::set_default_logger(logger); }

  static Config recipe(const std::string& network, int64_t side) {
    Config config;
    config.model.name = network;
    config.data.name = "synthetic";
    config.data.image_size = side;
    return config;
  }
  // A file with the recipe of its training; empty: of another program.
  SafetensorsFile weights(const std::string& trained) const {
    std::map<std::string, std::string> metadata;
    if (!trained.empty()) metadata["config"] = trained;
    write_safetensors(path, {}, metadata);
    return SafetensorsFile::open(path);
  }
  std::string said(const std::string& network, int64_t trained, int64_t here) const {
    return refusal([&] { require_same_form(weights(to_yaml(recipe(network, trained))), path, recipe(network, here)); });
  }

  const TemporaryDirectory directory;
  const std::string path = directory / "weights.safetensors";
  std::ostringstream warnings;
  const std::shared_ptr<spdlog::logger> logger = spdlog::default_logger();
};

TEST_F(NetworkForm, AnotherOneDoesNotAnswer) {
  const std::tuple<const char*, int64_t, int64_t> others[] = {{"mobilenet_v2", 32, 96},       {"mobilenet_v2", 224, 32},
                                                              {"efficientnet_lite0", 16, 33}, {"inception_v3", 32, 64},
                                                              {"inception_v3", 64, 75},       {"alexnet", 64, 224}};
  for (const auto& [network, trained, here] : others) {
    const std::string message = said(network, trained, here);
    EXPECT_PART(message,
                say("was trained on images of ", trained, " pixels; for the ", here, " pixels here ", network));
    EXPECT_PART(message, say("set data.image_size to ", trained));
  }
}

TEST_F(NetworkForm, TheSameAnswersOnImagesOfAnySize) {
  EXPECT_EQ(said("mobilenet_v2", 33, 224), "accepted");
  EXPECT_EQ(said("mobilenet_v2", 16, 32), "accepted");
  EXPECT_EQ(said("inception_v3", 224, 299), "accepted");
  EXPECT_EQ(said("resnet18", 32, 224), "accepted");
}

TEST_F(NetworkForm, IsUnknownWhereTheFileDoesNotSayIt) {
  for (const char* const recipe_of_file : {"", "data: {colours: 3}", "data: {name: photographs}"}) {
    const SafetensorsFile file = weights(recipe_of_file);
    EXPECT_FALSE(trained_side(file, path)) << recipe_of_file;
    EXPECT_EQ(refusal([&] { require_same_form(file, path, recipe("mobilenet_v2", 32)); }), "accepted");
  }
  EXPECT_EQ(trained_side(weights("data: {name: cifar10, root: x}"), path), 32);
  EXPECT_EQ(trained_side(weights("data: {name: image_folder, root: x}"), path), 224);
}

TEST_F(NetworkForm, AnotherOneIsAWarningBeforeATraining) {
  warn_of_other_form(weights(to_yaml(recipe("mobilenet_v2", 32))), path, recipe("mobilenet_v2", 32));
  EXPECT_EQ(warnings.str(), "");
  warn_of_other_form(weights(to_yaml(recipe("mobilenet_v2", 32))), path, recipe("mobilenet_v2", 96));
  EXPECT_PART(warnings.str(), "was trained on images of 32 pixels; for the 96 pixels here mobilenet_v2");
}

}  // namespace
}  // namespace octet
