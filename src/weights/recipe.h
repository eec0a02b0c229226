// The recipe inside a file of weights. Such files are handed to others, and come from others.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/weights/safetensors.h"

namespace octet {

// The recipe as text, without the paths that mean something on this machine alone: data.root, train.prometheus and the
// files of initial weights.
std::string recipe_to_share(const Config&);

// The recipe in the metadata of `weights`, whose path is `path`, with `overrides`. It names no file of initial weights
// or figures, and asks for no more decode threads than there are cores, no chosen number of threads, and no larger
// images than a recipe allows by default; overrides may. data_root: where the file says none. UsageError: the file
// holds no recipe.
Config recipe_in(const SafetensorsFile& weights, const std::string& path, const std::vector<std::string>& overrides,
                 const std::string& data_root = {});

// The same, as it is. Empty: another program wrote the file, or a version of octet with other keys.
std::optional<Config> find_recipe(const SafetensorsFile& weights, const std::string& path);

}  // namespace octet
