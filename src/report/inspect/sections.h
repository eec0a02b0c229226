// The sections of an inspection page, as HTML. Each is empty for a run that has nothing to show there.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/report/records.h"
#include "src/run/result.h"
#include "src/tasks/classification/class_answers.h"

namespace octet {

// Losses and other metrics, learning rate and speed. x is the number of epochs where the run is known to have such, and
// the number of steps otherwise.
std::string curve_section(const RunRecords&, const std::optional<Result>&);

// Of a classifier: accuracy by class, the confusion matrix, and the most confident mistakes as pictures. config: null
// if the run's configuration cannot be read. Without the data a sentence says why there are no pictures.
std::string class_sections(const ClassAnswers&, const Config*);

// Of a detector: average precision by class, curves of precision over recall, and images of the test set with what the
// network found on them at the last evaluation. Curves and images need the data at the place where the run found them;
// without it a sentence says what is missing.
std::string detection_sections(const std::string& run_directory, const std::optional<Result>&,
                               const std::vector<std::string>& overrides);

// Of each quantized layer: clips, learning rate scales, and its gradient's distribution.
std::string layer_sections(const RunRecords&);

}  // namespace octet
