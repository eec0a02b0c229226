#include "src/data/images/box_frame.h"

#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>

#include "kernels/base/error.h"
#include "src/data/on_threads.h"

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

// Images that cannot be read say nothing.
BoxFrames frames_of(const Annotations& set, const Config::Data& data) {
  std::vector<std::optional<ImageHeader>> headers(set.images.size());
  on_threads(data.workers, headers.size(), [&](size_t i) {
    try {
      headers[i] = header_of(set.images[i].path, data.max_pixels);
    } catch (const BadImage&) {  // its reader names it
    }
  });
  BoxFrames frames;
  for (size_t i = 0; i < headers.size(); ++i)
    if (headers[i]) frames.add(set.images[i].path, {set.images[i].height, set.images[i].width}, *headers[i]);
  return frames;
}

}  // namespace

std::optional<View> view_of_boxes(ImageSize annotated, const ImageHeader& header, std::string_view turn_upright) {
  const View view = turn_upright == "true" ? View::upright : View::stored;
  const bool chosen = turn_upright != "auto" || header.orientation == 1;
  const bool fits_view = fits(annotated, header, view);
  const bool fits_upright = !chosen && fits(annotated, header, View::upright);
  if (fits_view && fits_upright) return {};
  if (fits_view) return view;
  if (fits_upright) return View::upright;
  refuse(annotated, header, view);
}

void BoxFrames::add(const std::string& path, ImageSize annotated, const ImageHeader& header) {
  if (header.orientation == 1) return;
  const bool stored = fits(annotated, header, View::stored), upright = fits(annotated, header, View::upright);
  if (stored && upright) return undecided_.push_back(path);
  stored_ += stored, upright_ += upright;
}

std::optional<View> BoxFrames::agreed() const {
  if ((upright_ > 0) == (stored_ > 0)) return {};
  return upright_ > 0 ? View::upright : View::stored;
}

View BoxFrames::view() const {
  const std::string found = say(undecided_.empty() ? "an image" : undecided_.front(), " (one of ", undecided_.size(),
                                " such images) is stored turned or mirrored, as EXIF says, and its annotation fits "
                                "both the stored picture and the upright one; ");
  REQUIRE_USAGE(deciding() > 0,
                "set data.turn_upright to true if the boxes were drawn on upright pictures, or to false if on stored "
                "pixels",
                found, "no other image of the set says which one the boxes mean");
  REQUIRE_USAGE(agreed(),
                "store these images as they were annotated, without EXIF's orientation; data.turn_upright: true or "
                "false refuses the other images that disagree",
                found, "of the other images ", upright_, " are annotated upright, and ", stored_, " as stored");
  return *agreed();
}

ViewOfUndecided as_the_set(std::function<Annotations()> read_set, const Config::Data& data) {
  struct Decision {
    std::once_flag made;
    BoxFrames frames;
  };
  return [read_set = std::move(read_set), data, decision = std::make_shared<Decision>()](const std::string&) {
    BoxFrames& frames = decision->frames;
    std::call_once(decision->made, [&] {
      frames = frames_of(read_set(), data);
      if (const auto view = frames.agreed())
        spdlog::info(
            "{} images are stored turned or mirrored, and fit their annotations stored and upright: they are "
            "read {}, as {} other images are annotated",
            frames.undecided().size(), name_of(*view), frames.deciding());
    });
    return frames.view();
  };
}

}  // namespace octet
