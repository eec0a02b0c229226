// Recipes in files of weights: what they do not tell others, and what they do not decide.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "kernels/base/durable_file.h"
#include "src/weights/recipe.h"
#include "src/weights/trained_network.h"
#include "src/weights/weights_file.h"
#include "tests/train/temporary_directory.h"

namespace octet {
namespace {

Config local_recipe() {
  Config config;
  config.data.root = "/home/alice/secret";
  config.train.prometheus = "/home/alice/figures.prom";
  config.model.initial_weights = "/home/alice/first.safetensors";
  config.model.initial_backbone = "/home/alice/backbone.safetensors";
  config.data.batch = 64;
  return config;
}

TEST(RecipeInWeights, NamesNoPathOfThisMachine) {
  const std::string shared = recipe_to_share(local_recipe());
  EXPECT_EQ(shared.find("alice"), std::string::npos) << shared;
  EXPECT_NE(shared.find("batch: 64"), std::string::npos) << shared;
}

TEST(RecipeInWeights, SetsNoResourcesBeyondThoseOfThisMachine) {
  const TemporaryDirectory directory;
  const std::string path = std::filesystem::path(directory.path()) / "weights.safetensors";
  Config foreign = local_recipe();
  foreign.data.workers = 512;
  foreign.backend.threads = 4096;
  foreign.data.max_pixels = 1'000'000'000;
  write_weights(path, {}, {{"config", to_yaml(foreign)}});
  const auto read = [&](const std::vector<std::string>& overrides) { return find_network(path, "", overrides).config; };
  EXPECT_LE(read({}).data.workers, std::max(2u, std::thread::hardware_concurrency()));
  EXPECT_EQ(read({}).backend.threads, 0);
  EXPECT_EQ(read({}).data.max_pixels, Config{}.data.max_pixels);
  EXPECT_EQ(read({}).train.prometheus + read({}).model.initial_weights + read({}).model.initial_backbone, "");
  EXPECT_EQ(read({}).data.batch, 64);
  EXPECT_EQ(read({"data.workers=300", "backend.threads=7"}).data.workers, 300);
  EXPECT_EQ(read({"data.workers=300", "backend.threads=7"}).backend.threads, 7);
}

TEST(RecipeInWeights, DataAreWhereTheRunSays) {
  const TemporaryDirectory directory;
  const std::filesystem::path folder = directory.path();
  write_weights(folder / "best.safetensors", {}, {{"config", recipe_to_share(local_recipe())}});
  EXPECT_EQ(find_network(folder, "", {}).config.data.root, "");
  write_durably(folder / "config.yaml", to_yaml(local_recipe()));
  EXPECT_EQ(find_network(folder, "", {}).config.data.root, "/home/alice/secret");
  EXPECT_EQ(find_network(folder / "best.safetensors", "", {}).config.data.root, "/home/alice/secret");
  EXPECT_EQ(find_network(folder, "", {"data.root=here"}).config.data.root, "here");
}

}  // namespace
}  // namespace octet
