// A page of pictures with what a network says of them.
#pragma once
#include <string>

#include "src/report/predictions.h"

namespace octet {

// HTML that needs no other file: each picture with its most probable classes, or with the boxes of its objects. In a
// build without OpenCV without the pictures.
std::string prediction_page(const PredictionReport&);

}  // namespace octet
