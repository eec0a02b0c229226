// Small pictures of images of the test set, for a page.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/tasks/classification/class_answers.h"

namespace octet {

struct SmallPicture {
  std::string address;  // a PNG file as a "data:" address; empty: the image cannot be read now
  bool small = false;   // fewer pixels than the page shows
};
// The images of these answers as the network sees them, at most 128 pixels wide and high. UsageError: the data cannot
// be read, or is not that of the answers. Empty in a build without OpenCV.
std::vector<SmallPicture> small_pictures(const Config&, int64_t images, std::span<const Answer>);

}  // namespace octet
