// Pictures of images with what a detector finds on them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "src/report/pictures/draw_truth.h"

namespace octet {

struct PredictionDrawing : DrawOptions {
  std::string weights;              // a safetensors file of the network of config.model
  std::vector<std::string> images;  // files and folders; empty: `count` images of the data set
  double score = 0.3;               // least score of a drawn detection
  bool truth = false;               // beside each picture one with the annotated boxes
};
// Writes "000012-NAME.png" for image 12 of the data set, or of `images`. Returns the number of pictures. UsageError:
// the network is no detector, the data has no objects, or `images` are to be drawn with their truth.
int64_t draw_predictions(const Config&, Transport&, const PredictionDrawing&);

}  // namespace octet
