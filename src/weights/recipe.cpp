#include "src/weights/recipe.h"

#include <algorithm>
#include <thread>

#include "kernels/base/error.h"

namespace octet {
namespace {

void forget_files(Config& config) {
  config.model.initial_weights.clear();
  config.model.initial_backbone.clear();
  config.train.prometheus.clear();
}

void limit(Config& config) {
  const Config local;  // the defaults
  const auto cores = std::max<int64_t>(std::thread::hardware_concurrency(), local.data.workers);
  config.data.workers = std::min(config.data.workers, cores);
  config.data.max_pixels = std::min(config.data.max_pixels, local.data.max_pixels);
  config.backend.threads = local.backend.threads;
}

}  // namespace

std::string recipe_to_share(const Config& config) {
  Config shared = config;
  forget_files(shared);
  shared.data.root.clear();
  return to_yaml(shared);
}

Config recipe_in(const SafetensorsFile& weights, const std::string& path, const std::vector<std::string>& overrides,
                 const std::string& data_root) {
  const auto text = weights.metadata().find("config");
  REQUIRE_USAGE(text != weights.metadata().end(), "name a recipe, and these weights with --weights", path,
                " does not hold the configuration of a training");
  const std::string name = "the configuration in " + path;
  Config config = parse_config(text->second, name, {});
  forget_files(config);
  limit(config);
  if (config.data.root.empty()) config.data.root = data_root;
  return parse_config(to_yaml(config), name, overrides);
}

std::optional<Config> find_recipe(const SafetensorsFile& file, const std::string& path) {
  const auto recipe = file.metadata().find("config");
  if (recipe == file.metadata().end()) return {};
  try {
    return parse_config(recipe->second, path, {});
  } catch (const UsageError&) {
    return {};
  }
}

}  // namespace octet
