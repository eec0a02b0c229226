// Which pixels the boxes of an image mean: those that the file stores, or those turned upright as its EXIF data says.
// Annotations do not say it, but the size that they give the image does, if the picture is turned by 90 degrees.
#pragma once
#include <string>
#include <string_view>

#include "src/data/images/open_image.h"

namespace octet {

// annotated: a side of 0 is not known. turn_upright: data.turn_upright. With `auto` it is the view of the annotated
// size, and the stored one if both views have it. Throws BadImage: the image has another size than annotated.
View view_of_boxes(ImageSize annotated, const ImageHeader&, std::string_view turn_upright);

// Whether the annotated size fits both views, and they differ.
bool fits_both_views(ImageSize annotated, const ImageHeader&);

}  // namespace octet
