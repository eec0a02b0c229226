// A page of pictures with what a network says of them.
#pragma once
#include <span>
#include <string>

#include "src/train/predictor.h"

namespace octet {

// HTML that needs no other file: each picture with its most probable classes, or with the boxes of its objects, and the
// files that could not be read. files: of the data set that the network predicted.
std::string prediction_page(const Predictor&, const Presentation&, std::span<const std::string> files,
                            std::span<const Prediction>);

}  // namespace octet
