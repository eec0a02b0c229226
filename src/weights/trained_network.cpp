#include "src/weights/trained_network.h"

#include <filesystem>

#include "kernels/base/error.h"
#include "src/config/path_kind.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

std::string weights_of_run(const std::string& run) {
  for (const char* const name : {"best.safetensors", "weights.safetensors"})
    if (const fs::path file = fs::path(run) / name; fs::exists(file)) return file.string();
  REQUIRE_USAGE(false, "name a finished run, or give --weights with one of its checkpoints; images come last", run,
                " holds neither best.safetensors nor weights.safetensors");
  return {};
}

Config config_of(const std::string& weights, const std::vector<std::string>& overrides) {
  const SafetensorsFile file = SafetensorsFile::open(weights);
  const auto config = file.metadata().find("config");
  REQUIRE_USAGE(config != file.metadata().end(), "name a recipe, and these weights with --weights", weights,
                " does not hold the configuration of a training");
  return parse_config(config->second, "the configuration in " + weights, overrides);
}

}  // namespace

std::optional<Config> recipe_in(const SafetensorsFile& file, const std::string& path) {
  const auto recipe = file.metadata().find("config");
  if (recipe == file.metadata().end()) return {};
  try {
    return parse_config(recipe->second, path, {});
  } catch (const UsageError&) {
    return {};
  }
}

TrainedNetwork find_network(const std::string& named, const std::string& weights,
                            const std::vector<std::string>& overrides) {
  const PathKind kind = kind_of_path(named);
  REQUIRE_USAGE(kind != PathKind::nothing, "check the path", "'", named, "' does not exist");
  REQUIRE_USAGE(kind != PathKind::image, "name the network first, and then the images", named,
                " is an image, where a run, a .safetensors file or a recipe is expected");
  if (fs::is_directory(named)) {
    const std::string chosen = weights.empty() ? weights_of_run(named) : weights;
    return {config_of(chosen, overrides), chosen};
  }
  if (fs::path(named).extension() == ".safetensors") {
    REQUIRE_USAGE(weights.empty(), "leave --weights out", named, " is a file of weights already");
    return {config_of(named, overrides), named};
  }
  REQUIRE_USAGE(!weights.empty(), "name the directory of a run or a .safetensors file, or give --weights FILE", named,
                " is a recipe, which has no weights");
  return {load_config(named, overrides), weights};
}

}  // namespace octet
