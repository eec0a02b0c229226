// What a folder of images holds, for a recipe that fits it.
#pragma once
#include <cstdint>
#include <string>

namespace octet {

inline constexpr double kept_share = 0.15;  // data.holdout of a folder without val/

struct FolderFacts {
  std::string root;
  bool divided = false;                      // there is no val/ or test/: data.holdout keeps images for evaluation
  int64_t classes = 0, train = 0, test = 0;  // images
  int64_t smallest_class = 0;                // training images of the smallest class
  int64_t side = 0;                          // the median of the images' shorter sides, in pixels
};
// Reads the headers of some images. UsageError: the folder is not one of images in folders of classes.
FolderFacts look_at_folder(const std::string& root);

}  // namespace octet
