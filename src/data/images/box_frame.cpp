#include "src/data/images/box_frame.h"

#include "kernels/base/error.h"

namespace octet {
namespace {

bool fits(ImageSize annotated, const ImageHeader& header, View view) {
  return annotated.height == 0 || annotated.width == 0 || annotated == size_of(header, view);
}

std::string text_of(ImageSize size) { return say(size.width, " x ", size.height); }

// view: the one that data.turn_upright names.
[[noreturn]] void refuse(ImageSize annotated, const ImageHeader& header, View view) {
  const ImageSize size = size_of(header, view);
  const View other = view == View::stored ? View::upright : View::stored;
  const bool other_fits = fits(annotated, header, other);
  std::string reason = say("the image has ", text_of(size), " pixels, and its annotation says ", text_of(annotated));
  if (other_fits)
    reason += view == View::stored ? ": that of the picture when it is turned upright, as its EXIF data says"
                                   : ": that of the stored picture, before it is turned upright";
  else if (size == ImageSize{annotated.width, annotated.height})
    reason += ": width and height are exchanged";
  throw BadImage(ImageFault::other_size, reason,
                 other_fits ? "set data.turn_upright: auto"
                            : "use the images that were annotated, or correct sizes and boxes in the annotations");
}

}  // namespace

View view_of_boxes(ImageSize annotated, const ImageHeader& header, std::string_view turn_upright) {
  View view = turn_upright == "true" ? View::upright : View::stored;
  if (fits(annotated, header, view)) return view;
  if (turn_upright == "auto" && fits(annotated, header, View::upright)) return View::upright;
  refuse(annotated, header, view);
}

bool fits_both_views(ImageSize annotated, const ImageHeader& header) {
  return header.orientation != 1 && fits(annotated, header, View::stored) && fits(annotated, header, View::upright);
}

}  // namespace octet
