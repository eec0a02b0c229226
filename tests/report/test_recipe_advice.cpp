// What `octet new` takes from weights.
#include <gtest/gtest.h>

#include "src/models/detectors.h"
#include "src/models/models.h"
#include "src/report/check/recipe_advice.h"
#include "src/weights/pixel_normalization.h"
#include "src/weights/weights_file.h"
#include "tests/train/temporary_directory.h"

namespace octet {
namespace {

class RecipeAdvice : public ::testing::Test {
 protected:
  // The recipe for weights that have this tensor.
  Config recipe(const std::string& tensor, const std::map<std::string, std::string>& metadata = {}) const {
    OwnedTensors tensors;
    tensors.add(tensor, {1}, {1});
    const std::string path = directory / "weights.safetensors";
    write_safetensors(path, tensors, metadata);
    const FolderFacts facts{.root = "images",
                            .divided = true,
                            .classes = 2,
                            .train = 400,
                            .test = 70,
                            .smallest_class = 200,
                            .side = 96,
                            .names = {"cat", "dog"}};
    return parse_config(recipe_text(choose_recipe(facts, path, int64_t{1} << 33, 1), ""), "new.yaml", {});
  }
  static void expect_pixels(const Config& config, double mean, double deviation) {
    ASSERT_EQ(config.data.mean.size(), 3u);
    ASSERT_EQ(config.data.deviation.size(), 3u);
    for (size_t c = 0; c < 3; ++c) {
      EXPECT_FLOAT_EQ(float(config.data.mean[c]), float(mean));
      EXPECT_FLOAT_EQ(float(config.data.deviation[c]), float(deviation));
    }
  }

  TemporaryDirectory directory;
};

TEST_F(RecipeAdvice, PublishedWeightsNeedTheirPixels) {
  expect_pixels(recipe("_blocks.14._project_conv.weight"), 127.0 / 255, 128.0 / 255);
  expect_pixels(recipe("Mixed_7c.branch1x1.conv.weight"), 0.5, 0.5);
  for (const char* const tensor : {"layer4.1.conv2.weight", "features.18.0.weight", "conv_head.weight"}) {
    const Config config = recipe(tensor);
    EXPECT_EQ(config.data.mean, (std::vector<double>{0.485, 0.456, 0.406})) << tensor;
    EXPECT_EQ(config.data.deviation, (std::vector<double>{0.229, 0.224, 0.225})) << tensor;
  }
}

TEST_F(RecipeAdvice, FilesSayWhichPixelsTheyNeed) {
  std::map<std::string, std::string> metadata;
  add_normalization({{0.1f, 0.1f, 0.1f}, {0.3f, 0.3f, 0.3f}}, metadata);
  expect_pixels(recipe("_blocks.14._project_conv.weight", metadata), 0.1, 0.3);
  expect_pixels(recipe("layer4.1.conv2.weight", metadata), 0.1, 0.3);
}

// Files of earlier versions have the recipe of their training alone.
TEST_F(RecipeAdvice, EarlierFilesSayItByTheirRecipe) {
  expect_pixels(recipe("layer4.1.conv2.weight", {{"config", "data: {name: shapes}"}}), 0.5, 0.25);
  expect_pixels(recipe("layer4.1.conv2.weight", {{"config", "data: {name: shapes, mean: [0, 0, 0]}"}}), 0, 0.25);
  // Of a version with other keys: as if another program had written it.
  EXPECT_EQ(recipe("layer4.1.conv2.weight", {{"config", "data: {colours: 3}"}}).data.mean[0], 0.485);
}

// Weights of a small form have the shapes of the large one, and are of no use to it.
TEST_F(RecipeAdvice, ImagesHaveTheSizeOnWhichOctetTrained) {
  for (const char* const network : {"mobilenet_v2", "efficientnet_lite0", "inception_v3", "alexnet", "vgg7"})
    for (const int side : {32, 64}) {
      const std::string trained =
          say("{model: {name: ", network, "}, data: {name: synthetic, image_size: ", side, "}}");
      const Config config = recipe("tensor", {{"config", trained}});
      EXPECT_EQ(config.model.name, network);
      EXPECT_EQ(config.data.image_size, side) << network;
    }
}

TEST_F(RecipeAdvice, ImagesOfPublishedWeightsHaveASizeThatTheNetworkTakes) {
  EXPECT_EQ(recipe("features.10.weight").data.image_size, 224);
  EXPECT_EQ(recipe("features.18.0.weight").data.image_size, 96);
}

TEST_F(RecipeAdvice, EveryClassifierOfOctetCanBeUsedAndADetectorIsNamed) {
  for (const std::string& network : model_names()) {
    const std::map<std::string, std::string> metadata = {{"config", say("model: {name: ", network, "}")}};
    if (is_detector(network))
      EXPECT_PART(refusal([&] { recipe("tensor", metadata); }), "is of " + network + ", which is no classifier");
    else
      EXPECT_EQ(recipe("tensor", metadata).model.name, network);
  }
  EXPECT_PART(refusal([&] { recipe("tensor"); }), "does not name its network");
}

TEST_F(RecipeAdvice, AHeadOfTheSameClassesIsKept) {
  for (const auto& [classes, head] : {std::pair{R"(["cat", "dog"])", "keep"}, {R"(["dog", "cat"])", "new"}})
    EXPECT_EQ(recipe("layer4.1.conv2.weight", {{"classes", classes}}).model.head, head);
  EXPECT_EQ(recipe("layer4.1.conv2.weight").model.head, "new");
}

TEST_F(RecipeAdvice, OtherEntriesAreRefused) {
  for (const char* const entry : {"", "[]", R"({"mean": [0.5, 0.5, 0.5]})", R"({"mean": [0.5], "deviation": [0.5]})",
                                  R"({"mean": [0, 0, 0], "deviation": [1, 0, 1]})"})
    EXPECT_PART(refusal([&] {
                  recipe("layer4.1.conv2.weight", {{"normalization", entry}});
                }),
                "normalization")
        << entry;
}

}  // namespace
}  // namespace octet
