// What the data source of a recipe says of images, also of those that it does not hold.
#pragma once
#include "src/config/config.h"
#include "src/data/images/normalization.h"

namespace octet {

struct SourceTraits {
  bool objects = false;  // the images are a detector's, on canvases; otherwise a network reads a middle square of each
  Normalization own;     // where the configuration has none
  double middle = 1;     // the side of the middle square, as a share of the image's shorter side
};
// UsageError: as image_side().
SourceTraits source_traits(const Config::Data&);
// The length to which evaluation resizes an image's shorter side before it takes the middle square of image_side()
// pixels; not of a detector's images. UsageError: as image_side().
int64_t resized_shorter_side(const Config::Data&);
// UsageError: the source reads files, and data.root leads to no folder. The message names the key and the path.
void require_root(const Config::Data&);

}  // namespace octet
