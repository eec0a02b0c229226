// Where the objects of a data set lie on the canvases of a recipe, and how well anchors overlap them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/models/detectors.h"
#include "src/objects.h"

namespace octet {

// An object on the canvas of its image, in pixels.
struct PlacedObject {
  Box box;
  int32_t label = 0;
  float best_overlap = 0;  // with an anchor whose center is on the image
  double side() const;     // the square root of its area
};

// What one split looks like to the network. Images of unknown size are left out.
struct Placement {
  std::vector<int64_t> images;     // by canvas
  double content = 0, canvas = 0;  // pixels of all images, and of their canvases
  int64_t reduced = 0;             // images that are smaller than the recipe asks for
  std::vector<PlacedObject> objects = {};
  std::vector<int64_t> invisible = {};  // objects smaller than a pixel of the canvas, by class
  int64_t all_invisible() const;
};
Placement placed(const Annotations& split, const Config::Data&, const AnchorRule&);

// The share of the objects of one class, or of all (label -1), that an anchor overlaps by `positive`; -1: there are
// none.
double found_share(const Placement&, int32_t label, float positive);
// The mean of that share over the classes that have objects, so that a rare class counts as much as another one.
double found_share_of_classes(const Placement&, float positive);

// The side below which the share of all weight lies. sides: with their weights, sorted.
double quantile(const std::vector<std::pair<double, double>>& sides, double share);
// An anchor size for each level: the middle of each part when the objects are cut by size into as many parts of equal
// weight, where every class weighs alike. Empty: there are no objects.
std::vector<int64_t> sizes_that_fit(const Placement&, const AnchorRule&);

}  // namespace octet
