// A whole data set of small pictures in memory, normalized and augmented as it is read. CIFAR-10 and shapes are this.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "src/data/loader.h"
#include "src/data/normalization.h"

namespace octet {

struct Pixels {
  int64_t side = 32;            // height and width; three channels
  std::vector<uint8_t> images;  // (count, side, side, 3)
  std::vector<uint8_t> labels;  // (count)
  int64_t classes = 10;
  Normalization normalization;
  int64_t padding = 0;  // training: a random crop of the picture padded with so many zero pixels, then a flip
  bool augment = true;
  std::string description;

  int64_t count() const { return static_cast<int64_t>(labels.size()); }
};

std::unique_ptr<Dataset> make_dataset(Pixels);

}  // namespace octet
