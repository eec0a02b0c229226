// The drawn data set with objects, as files.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace octet {

// Writes the images of shapes_detection and their boxes in COCO's layout: train2017/*.png, val2017/*.png and
// annotations/instances_{train,val}2017.json in `directory`, which must be empty or absent. A directory beside it
// collects the files and gets its name at the end, so it is complete or not there. samples: of training; an eighth of
// it for val. side: height and width in pixels. progress: called with the number of written images and of all.
void make_shapes(const std::string& directory, int64_t samples, int side,
                 const std::function<void(int64_t written, int64_t all)>& progress);

}  // namespace octet
