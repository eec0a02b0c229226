// Parts of pages about a detector's figures, as HTML.
#pragma once
#include <string>

#include "src/tasks/detection/figures.h"

namespace octet {

// The figures of the classes that have objects, and curves of precision over recall, with a heading.
std::string detection_cards(const DetectionFigures&);

}  // namespace octet
