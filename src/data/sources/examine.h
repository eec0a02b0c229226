// What image files are.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/data/images/decode.h"

namespace octet {

struct ImageFacts {
  std::string fault;                         // why it cannot be read; empty: it can
  ImageFault kind = ImageFault::unreadable;  // of a fault
  std::string format;                        // "JPEG"; empty: unknown
  bool misnamed = false;                     // its name ends as that of another format
  std::vector<std::string> warnings = {};    // of the decoder, of an image that is complete
  ImageHeader header;
  uint64_t hash = 0;  // of the bytes of the file
};

// Reads and decodes each file once, on data.workers threads. The order is that of the paths.
std::vector<ImageFacts> examine_images(const std::vector<std::string>& paths, const Config::Data&);

}  // namespace octet
