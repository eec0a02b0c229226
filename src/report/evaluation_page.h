// A page about one evaluation.
#pragma once
#include <string>

#include "src/data/loader.h"
#include "src/tasks/judge.h"

namespace octet {

// HTML that needs no other file: the figures, those of each class and, of a classifier, the confusion matrix and the
// most confident mistakes as pictures. data: what was judged. sentence: what judged it.
std::string evaluation_page(const Judge&, const Dataset& data, const std::string& sentence);
// Of stored detections.
std::string evaluation_page(const DetectionFigures&, const std::string& sentence);

}  // namespace octet
