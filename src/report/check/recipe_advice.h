// A recipe for a folder of images, with a reason for each choice.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "src/config/config.h"

namespace octet {

inline constexpr double kept_share = 0.15;  // data.holdout of a folder without val/

struct FolderFacts {  // what a folder of images holds
  std::string root;
  bool divided = false;                      // there is no val/ or test/: data.holdout keeps images for evaluation
  int64_t classes = 0, train = 0, test = 0;  // images
  int64_t smallest_class = 0;                // training images of the smallest class
  int64_t side = 0;                          // the median of the images' shorter sides, in pixels
  std::vector<std::string> names = {};       // of the classes
  std::string splits = {};                   // the names of the folders that train and are judged; empty: divided
  int64_t examined = 0;                      // images of both splits that were decoded
  std::vector<std::string> bad = {};         // of them, those that cannot be read, with the reason
};
// Reads the headers of some images, and decodes as many as take some seconds on `cores`. UsageError: the folder is not
// one of images in folders of classes, or no image can be read.
FolderFacts look_at_folder(const std::string& root, int cores);

// One key of a recipe.
struct Choice {
  std::string key, value, reason;
};
// The choices so far, in the order of the recipe.
class Choices {
 public:
  void add(std::string key, std::string value, std::string reason);
  // Adds the normalization of pixels that the weights need, where they tell.
  void add_pixels(const std::string& weights, const std::string& network);
  Config config() const;
  std::vector<Choice> take() { return std::move(all_); }

 private:
  std::vector<Choice> all_;
};

// weights: a safetensors file of a known network, or empty. memory: bytes that a training may use. UsageError: the
// weights are of no known network.
std::vector<Choice> choose_recipe(const FolderFacts&, const std::string& weights, int64_t memory, int cores);

// The name of the weights' network, where a detector may have it as its backbone. UsageError: it may not, or the
// weights are of no known network.
std::string backbone_of(const std::string& weights);

// YAML that load_config() reads; the reasons are comments. title: its first lines, without the comment's mark.
std::string recipe_text(const std::vector<Choice>&, const std::string& title);

}  // namespace octet
