// Writes what a network says of images, for people and for programs.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "src/train/predictor.h"

namespace octet {

// One JSON object for each detection: {"image_id": 1, "file_name": "a.jpg", "category_id": 3, "class": "cat", "bbox":
// [x, y, width, height], "score": 0.98765}, COCO's results format with two names more. image_id is the position of the
// image in `images` from 1, and category_id the id of the data that the network was trained on.
// For a classifier one for each image: {"image": "a.jpg", "top": [{"index": 3, "class": "cat", "probability": 0.97},
// ...]}, with the `top` most probable classes.
std::vector<std::string> prediction_objects(const Predictor&, const Annotations& images, std::span<const Prediction>,
                                            int64_t top);
// The same as text: an image with its objects, or with its most probable classes.
std::string prediction_text(const Predictor&, const Annotations& images, const Prediction&, int64_t top);

}  // namespace octet
