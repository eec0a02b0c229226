// Bilinear resizing with an antialiasing filter, as Pillow's Image.resize(BILINEAR) does it: the same bytes.
#pragma once
#include <opencv2/core.hpp>

namespace octet {

// In 64 bits: a picture one pixel high may become very wide before its middle is cut out.
using Size64 = cv::Size_<int64_t>;
using Rect64 = cv::Rect_<int64_t>;

// The size to which torchvision's Resize(shorter_side) brings an image: proportions are kept, the longer side is
// rounded down.
Size64 resized_size(Size64 image, int64_t shorter_side);

// The middle `side` x `side` pixels, as torchvision's CenterCrop places them: half pixels are rounded to even.
Rect64 middle_square(Size64 image, int64_t side);

// `part` of what `image` (rows, columns, 3) of bytes is after it was resized to `size`. Only the part is computed.
cv::Mat resized_part(const cv::Mat& image, Size64 size, const Rect64& part);

}  // namespace octet
