// Prints what detections are worth.
#pragma once
#include <string>

#include "src/tasks/detection/figures.h"

namespace octet {

// The figures on a line, and a table of the classes.
std::string detection_table(const DetectionFigures&);
// One JSON object of the figures. `by_class` holds the first figure of each class that has objects.
std::string detection_json(const DetectionFigures&);

}  // namespace octet
