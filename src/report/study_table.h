// The outcome of a study: table.md, results.json, accuracy.svg and curves.svg in its directory.
#pragma once
#include <string>

#include "src/report/study_plan.h"

namespace octet {

// Rows without a finished run say so. Deviations are those of samples (n - 1).
void write_study_table(const StudyPlan&, const std::string& directory);

}  // namespace octet
