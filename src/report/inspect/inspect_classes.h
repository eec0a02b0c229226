// What an inspection page shows of a classifier.
#pragma once
#include <string>

#include "src/config/config.h"
#include "src/tasks/classification/class_answers.h"

namespace octet {

// Accuracy by class, the confusion matrix, and the most confident mistakes as pictures. config: null if the run's
// configuration cannot be read. Without the data a sentence says why there are no pictures.
std::string class_sections(const ClassAnswers&, const Config*);

}  // namespace octet
