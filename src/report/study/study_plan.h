// A study: a grid of runs, each a recipe with some keys set. Read from YAML and checked before the first run.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace octet {

struct StudyRun {
  std::string name;  // row and seed; also the name of its directory
  size_t row = 0;
  int64_t seed = 0;
  std::vector<std::string> overrides;  // key=value
};

struct StudyRow {
  std::vector<std::string> labels;  // one for each axis
  std::optional<size_t> baseline;   // the row that its drop is measured from
  std::string paper;                // the published value for it, as text; empty: none
  std::string name() const;
};

struct StudyPlan {
  std::string title, note;
  std::string paper_says;  // the unit of `paper`, for example "accuracy (%)"
  std::string base;        // the recipe, a path
  int64_t ranks = 1;
  std::vector<std::string> axes;
  std::vector<StudyRow> rows;
  std::vector<StudyRun> runs;  // rows x seeds
};

// The setting that changed since the run in that directory began, and that changes its result: "`train.lr: 0.1` then,
// `train.lr: 0.2` now". Empty: none, or no run began there.
std::string changed_since(const StudyPlan&, const StudyRun&, const std::string& run_directory);
// UsageError with file and line for what is not understood. The base recipe must exist, and every key must be known.
StudyPlan read_study(const std::string& file, const std::vector<std::string>& overrides);

}  // namespace octet
