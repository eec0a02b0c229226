// Pictures of several shapes with their boxes, which octet draws itself.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "src/data/draws.h"
#include "src/objects.h"

namespace octet {

struct Scene {
  std::vector<uint8_t> pixels;  // (side, side, 3) RGB
  std::vector<Object> objects;  // area: the number of visible pixels
};
// Picture `index` of a split: 1 to 12 shapes of 12 to 96 pixels, at most three quarters of `side`. Shapes hide parts of
// others; one of which less than 0.4 is visible is left out. A box encloses the pixels of a shape that are visible and
// covered by more than half. split: train_picture or test_picture.
Scene draw_scene(DrawStream split, int64_t index, int side);

// `count` pictures as an annotated set without files: labels are indices of shape_classes(), names "000000000001.png".
// Their pixels go to `pixels`, (count, side, side, 3).
Annotations draw_scenes(DrawStream split, int64_t count, int side, int64_t workers, std::vector<uint8_t>& pixels);

}  // namespace octet
