// Image files as pictures on a page.
#pragma once
#include <string>

#include "src/train/predictor.h"

namespace octet {

// A JPEG as a "data:" address, its longer side at most `side` pixels, with the boxes of a detector. Empty if the file
// cannot be read, of which the prediction has warned, and in a build without OpenCV.
std::string picture_of_file(const Predictor&, const std::string& file, const Prediction&, int side);

}  // namespace octet
