// A recipe for a folder of images, with a reason for each choice.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "src/report/check/folder_facts.h"

namespace octet {

// One key of a recipe.
struct Choice {
  std::string key, value, reason;
};
// weights: a safetensors file of a known network, or empty. memory: bytes that a training may use. UsageError: the
// weights are of no known network.
std::vector<Choice> choose_recipe(const FolderFacts&, const std::string& weights, int64_t memory, int cores);

// YAML that load_config() reads; the reasons are comments. title: its first lines, without the comment's mark.
std::string recipe_text(const std::vector<Choice>&, const std::string& title);

}  // namespace octet
