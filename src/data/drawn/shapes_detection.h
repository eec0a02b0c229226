// Pictures of several shapes with their boxes, which octet draws itself.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "src/data/draws.h"
#include "src/objects.h"

namespace octet {

struct Scene {
  AnnotatedImage image;         // without a path; its name is "000000000001.png"
  std::vector<uint8_t> pixels;  // (side, side, 3) RGB
};
// Picture `index` of a split: 1 to 12 shapes in discs of 14 to 96 pixels, at most three quarters of `side`, a multiple
// of 4. Shapes hide parts of others; one of which less than 0.4 is visible is left out. A box encloses the pixels of a
// shape that are visible and covered by more than half; its object's area is their number. split: train_picture or
// test_picture.
Scene draw_scene(DrawStream split, int64_t index, int side);

// The classes of the objects, and no image yet.
Annotations shape_annotations();

}  // namespace octet
