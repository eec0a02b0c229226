// What image files are, without decoding their pixels.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/objects.h"

namespace octet {

struct ImageFacts {
  std::string fault;              // why it cannot be read; empty: it can
  int32_t width = 0, height = 0;  // of its header, in pixels
  uint64_t hash = 0;              // of the bytes of the file
};

// Reads each file once, on data.workers threads. The order is that of the images.
std::vector<ImageFacts> examine_images(const std::vector<AnnotatedImage>&, const Config::Data&);

}  // namespace octet
