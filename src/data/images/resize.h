// Bilinear resizing, smooth as Pillow's Image.resize(BILINEAR): the same bytes.
#pragma once
#include "src/data/images/raster.h"

namespace octet {

enum class Resizing : uint8_t {
  smooth,    // with an antialiasing filter
  bilinear,  // each pixel is a mean of four, however many there are
};

// In 64 bits: a picture one pixel high may become very wide before its middle is cut out.
using Size64 = SizeOf<int64_t>;
using Rect64 = RectOf<int64_t>;
inline Size64 size_of(const Raster& image) { return {image.cols, image.rows}; }

// The size to which torchvision's Resize(shorter_side) brings an image: proportions are kept, the longer side is
// rounded down.
Size64 resized_size(Size64 image, int64_t shorter_side);

// The middle `side` x `side` pixels, as torchvision's CenterCrop places them: half pixels are rounded to even.
Rect64 middle_square(Size64 image, int64_t side);

// `part` of what `image` (rows, columns, 3) of bytes is after it was resized to `size`. Only the part is computed.
Raster resized_part(const Raster& image, Size64 size, const Rect64& part, Resizing = Resizing::smooth);
// The same of the whole; of that size: the image itself.
Raster resized(const Raster& image, PixelSize size, Resizing = Resizing::smooth);
// The image, `scale` times as large; for 1 or more the image itself.
Raster shrunk(const Raster& image, double scale);

}  // namespace octet
