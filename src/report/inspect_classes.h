// What an inspection page shows of a classifier.
#pragma once
#include <string>

#include "src/config/config.h"
#include "src/train/answers.h"

namespace octet {

// Accuracy by class, the confusion matrix, and the most confident mistakes as pictures. config: null if the run's
// configuration cannot be read. Without the data a sentence says why there are no pictures.
std::string class_sections(const Answers&, const Config*);

}  // namespace octet
