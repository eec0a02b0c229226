// The sizes of a detector's input. An image is resized and put at the top left of a canvas; the rest is zeros. A recipe
// names few canvases, since the network has a plan for each.
#pragma once
#include <cstdint>
#include <vector>

#include "src/config/config.h"
#include "src/data/loader.h"

namespace octet {

struct ImageSize {
  int64_t height = 0, width = 0;
  bool operator==(const ImageSize&) const = default;
};

class Canvases {
 public:
  // data.canvas_heights and data.canvas_widths. Where the recipe names none: the two that hold every image resized to
  // data.short_side and data.long_side; without these a square of `own_side`. UsageError: there is none then (own_side
  // is 0), or a side is no multiple of 32, by which a network divides it.
  explicit Canvases(const Config::Data&, int64_t own_side = 0);

  // In order of their area.
  int count() const { return static_cast<int>(canvases_.size()); }
  ImageShape shape(int canvas) const { return canvases_[static_cast<size_t>(canvas)]; }
  // The first canvas that holds an image resized to data.short_side and data.long_side. If none does, the one that
  // holds it with the largest scale.
  int of(ImageSize image) const;
  // Whether no canvas holds the image, so that content() makes it smaller than the recipe asks for.
  bool reduces(ImageSize image) const;
  // The size of an image in a canvas: resized so that the shorter side is `short_side` or the longer one
  // data.long_side, whichever is smaller (0: no such limit), and further until the canvas holds it. Sides are rounded
  // down, to 1 at least.
  ImageSize content(int canvas, ImageSize image, int64_t short_side) const;

 private:
  ImageSize resized(ImageSize image, int64_t short_side) const;
  bool holds(const ImageShape& canvas, ImageSize image) const;

  std::vector<ImageShape> canvases_;
  int64_t short_side_, long_side_;
};

// The sizes of the network's input that config.data asks for, in order of area: the canvases of images with objects,
// else the one size of all images. UsageError: as image_side() and Canvases.
std::vector<ImageShape> input_shapes(const Config::Data&);

}  // namespace octet
