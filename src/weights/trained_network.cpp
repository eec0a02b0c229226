#include "src/weights/trained_network.h"

#include <filesystem>

#include "kernels/base/error.h"
#include "src/config/path_kind.h"
#include "src/weights/recipe.h"

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

// Weights do not say where data are on this machine. The recipe of a run, in `folder`, does; empty: there is none.
std::string root_beside(const fs::path& folder) {
  const fs::path recipe = folder / "config.yaml";
  try {
    return fs::is_regular_file(recipe) ? load_config(recipe.string(), {}).data.root : "";
  } catch (const UsageError&) {  // of another version
    return {};
  }
}

Config config_of(const std::string& weights, const std::vector<std::string>& overrides, const fs::path& folder) {
  return recipe_in(SafetensorsFile::open(weights), weights, overrides, root_beside(folder));
}

}  // namespace

TrainedNetwork find_network(const std::string& named, const std::string& weights,
                            const std::vector<std::string>& overrides) {
  const PathKind kind = kind_of_path(named);
  REQUIRE_USAGE(kind != PathKind::nothing, "check the path", "'", named, "' does not exist");
  REQUIRE_USAGE(kind != PathKind::image, "name the network first, and then the images", named,
                " is an image, where a run, a .safetensors file or a recipe is expected");
  if (fs::is_directory(named)) {
    const std::string chosen = weights.empty() ? weights_of_run(named) : weights;
    return {config_of(chosen, overrides, named), chosen};
  }
  if (fs::path(named).extension() == ".safetensors") {
    REQUIRE_USAGE(weights.empty(), "leave --weights out", named, " is a file of weights already");
    return {config_of(named, overrides, fs::path(named).parent_path()), named};
  }
  REQUIRE_USAGE(!weights.empty(), "name the directory of a run or a .safetensors file, or give --weights FILE", named,
                kind == PathKind::recipe ? " is a recipe, which has no weights"
                                         : " is no network that octet reads; an exported file is none");
  TrainedNetwork network{load_config(named, overrides), weights};
  // The largest batch is for a training, and finding it needs the training's data; answers do not depend on it.
  if (network.config.data.batch == automatic) network.config.data.batch = Config().data.batch;
  return network;
}

}  // namespace octet
