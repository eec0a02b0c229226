// The outcome of a study: study.html, table.md, results.json, accuracy.svg and curves.svg in its directory.
#pragma once
#include <string>
#include <vector>

#include "src/report/charts/svg.h"
#include "src/report/study/study_plan.h"

namespace octet {

// A row without a finished run has no figures. Deviations are those of a sample (n - 1).
void write_study_table(const StudyPlan&, const std::string& directory);

struct StudyOutcome {
  std::vector<std::string> head = {};               // of the table
  std::vector<std::vector<std::string>> rows = {};  // its cells, as text
  std::string sentence = {};                        // below the table
  struct List {
    std::string title;
    std::vector<std::string> items;
  };
  std::vector<List> lists = {};  // of runs that are not in the table
  std::vector<Bar> bars = {};    // a row's mean each
  std::vector<Series> curves = {};
  std::string metric, unit;  // of bars and curves
};

// study.html: the table, the means, and a small chart of curves for each policy; where no axis is named policy, for
// each label of the last axis.
std::string study_page(const StudyPlan&, const StudyOutcome&);

}  // namespace octet
