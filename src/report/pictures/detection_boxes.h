// The objects of an image, and what a network found there, as boxes with text.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "src/report/pictures/draw_boxes.h"

namespace octet {

// Crowds and difficult objects are dashed, and their text says so.
std::vector<DrawnBox> boxes_of(const AnnotatedImage&, std::span<const std::string> classes);
// With their scores. Detections below `least` are left out.
std::vector<DrawnBox> boxes_of(std::span<const Detection>, std::span<const std::string> classes, double least);

}  // namespace octet
