// The outcome of a study: study.html, table.md, results.json, accuracy.svg and curves.svg in its directory.
#pragma once
#include <string>

#include "src/report/study/study_plan.h"

namespace octet {

// A row without a finished run has no figures. Deviations are those of a sample (n - 1).
void write_study_table(const StudyPlan&, const std::string& directory);

}  // namespace octet
