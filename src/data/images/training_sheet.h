// A picture of what a network reads while it trains.
#pragma once
#include <cstdint>
#include <string>

#include "src/data/loader.h"

namespace octet {

struct Sheet {
  int width = 0, height = 0;  // in pixels; 0: no image could be read
  std::string png;
};
// Up to 16 images of the first canvas, evenly spread over the data set, as the first epoch reads them: cropped,
// mirrored, changed in colour, with the boxes that train. Images are not mixed.
Sheet training_sheet(const Dataset&, uint64_t seed);

}  // namespace octet
