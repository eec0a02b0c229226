// Images that people name or hold in memory, as the network of a recipe reads them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/data/loader.h"

namespace octet {

// The files among `paths`, and the images in the folders among them, with their subfolders, sorted. Hidden
// files and folders are left out. UsageError: a path is absent or cannot be read, or a folder holds no image.
std::vector<std::string> find_images(const std::vector<std::string>& paths);

// Image files, read as the test set of config.data: resized or cropped, and normalized. No image has objects or a
// class: its label is -1. Images that cannot be read are warned of and skipped or, as an error, refused.
enum class BadFiles : uint8_t { skip, refuse };
std::unique_ptr<Dataset> open_named_images(const Config&, const std::vector<std::string>& files, const Classes&,
                                           BadFiles = BadFiles::skip);

// The same of pixels, which must outlive the data set.
struct RgbPixels {
  const uint8_t* pixels = nullptr;  // (height, width, 3)
  int64_t height = 0, width = 0;    // 1 .. 2^31 - 1
};
std::unique_ptr<Dataset> open_pixels(const Config&, const std::vector<RgbPixels>&, const Classes&);

// Some samples of a data set: sample i is that of indices[i]. annotations() are those of the whole set, which must
// outlive this one.
std::unique_ptr<Dataset> selected(const Dataset& all, std::vector<int64_t> indices);

}  // namespace octet
