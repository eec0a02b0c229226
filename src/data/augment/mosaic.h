// Mosaics (Bochkovskiy et al., "YOLOv4: Optimal speed and accuracy of object detection", 2020): four images around a
// random center of the canvas, each with the corner that is next to it there. What reaches over the canvas or into the
// quarter of another image is cut off.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "src/config/config.h"
#include "src/data/augment/canvases.h"
#include "src/sample.h"

namespace octet {

struct Mosaic {
  struct Part {
    int64_t sample = 0;
    int quarter = 0;   // 0: top left; 1: top right; 2: bottom left; 3: bottom right
    double scale = 1;  // of the size that the image has when it is read alone
  };
  int64_t center_x = 0, center_y = 0;  // the first pixel of the bottom right quarter
  std::array<Part, 4> parts = {};      // the first is the sample that the mosaic is of
};

// Which samples become mosaics.
class Mosaics {
 public:
  Mosaics() = default;  // none
  // augment.mosaic of the samples, until augment.mosaic_until of train.epochs, rounded to epochs.
  explicit Mosaics(const Config&);
  // A function of (seed, epoch, sample). The center is in the middle 60 % of each side, scales are 0.5 to 1, and the
  // other images are any of `samples`. Null: the sample is read alone.
  std::optional<Mosaic> drawn(uint64_t seed, int64_t epoch, int64_t sample, int64_t samples, const ImageShape&) const;

 private:
  float share_ = 0;
  int64_t epochs_ = 0;
};

// Where a part lies on the canvas, in pixels.
struct Tile {
  int64_t x = 0, y = 0;                              // of the image's left and upper edge; may be outside
  int64_t left = 0, top = 0, right = 0, bottom = 0;  // what is seen of it; right and bottom are outside
};
// content: the size of the whole image at the part's scale.
Tile tile_of(const Mosaic&, const Mosaic::Part&, ImageSize content, const ImageShape& canvas);

// An object that keeps a smaller share of its area does not train: hardly anything of it is seen. The share is that of
// YOLOv5 and its successors.
inline constexpr float least_kept_area = 0.1f;
// The box on the canvas of a box on the whole image at the part's scale. Null: the object does not train.
std::optional<Box> on_tile(const Box& on_image, const Tile&);

}  // namespace octet
