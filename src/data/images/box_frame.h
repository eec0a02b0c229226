// Which pixels the boxes of an image mean: those that the file stores, or those turned upright as its EXIF data says.
// Annotations do not say it, but the size that they give the image does, if the picture is turned by 90 degrees. Tools
// treat all images of a set alike, so these decide for the others.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/data/images/open_image.h"
#include "src/objects.h"

namespace octet {

// annotated: a side of 0 is not known. turn_upright: data.turn_upright. With `auto` it is the view of the annotated
// size; none: both views have it, and they differ. Throws BadImage: the image has another size than annotated.
std::optional<View> view_of_boxes(ImageSize annotated, const ImageHeader&, std::string_view turn_upright);

// What the images of a set say with data.turn_upright: auto.
class BoxFrames {
 public:
  // Counts an image. One of another size than annotated says nothing.
  void add(const std::string& path, ImageSize annotated, const ImageHeader&);
  // The view of all deciding images; none: there are none, or they disagree.
  std::optional<View> agreed() const;
  View view() const;                                       // the same, for the undecided images. UsageError: none
  int64_t deciding() const { return upright_ + stored_; }  // images that are stored turned and fit one view alone
  const std::vector<std::string>& undecided() const { return undecided_; }  // paths of those that fit both views

 private:
  int64_t upright_ = 0, stored_ = 0;
  std::vector<std::string> undecided_;
};

// The view of an image that view_of_boxes() leaves open, by its path. Several threads call it at once.
using ViewOfUndecided = std::function<View(const std::string& path)>;
// As all images of the set that decide. Reads their headers on data.workers threads when it is first called: most sets
// have no undecided image, and start without. The answer depends on the files alone, so that it is the same on every
// rank and after a resume. UsageError: as BoxFrames::view().
ViewOfUndecided as_the_set(std::function<Annotations()> read_set, const Config::Data&);

}  // namespace octet
