// A trained network as people name it: a run, a file of weights, or a recipe with weights.
#pragma once
#include <string>
#include <vector>

#include "src/config/config.h"

namespace octet {

struct TrainedNetwork {
  Config config;
  std::string weights;  // a safetensors file
};
// named: the directory of a run, whose best weights are taken if it kept them; a safetensors file that octet wrote,
// which holds its configuration, as recipe_in() reads it; or a recipe. weights: a file to take instead; a recipe needs
// one. UsageError: there is no such file, or the weights do not say how they were trained.
TrainedNetwork find_network(const std::string& named, const std::string& weights,
                            const std::vector<std::string>& overrides);

}  // namespace octet
