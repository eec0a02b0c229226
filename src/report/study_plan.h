// What a study asks for: a grid of runs, each a recipe with some keys set. Read from YAML, every word checked.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace octet {

struct StudyRun {
  std::string name;  // of the row and the seed: its directory
  size_t row = 0;
  int64_t seed = 0;
  std::vector<std::string> overrides;  // key=value
};

struct StudyRow {
  std::vector<std::string> labels;  // one for each axis
  std::optional<size_t> baseline;   // the row whose accuracy a drop is taken from
  std::string paper;                // the paper's value for it, as text; empty: none
  std::string name() const;
};

struct StudyPlan {
  std::string title, note;
  std::string paper_says;  // what `paper` counts, for example "accuracy (%)"
  std::string base;        // the recipe, a path
  int64_t ranks = 1;
  std::vector<std::string> axes;
  std::vector<StudyRow> rows;
  std::vector<StudyRun> runs;  // rows x seeds
};

// How the settings of a run that was begun there differ now, where its result would be another: "`train.lr: 0.1` then,
// `train.lr: 0.2` now". Empty: they do not, or nothing was begun.
std::string changed_since(const StudyPlan&, const StudyRun&, const std::string& run_directory);
// UsageError with file and line for whatever is not understood; the base recipe must exist, and every key be known.
StudyPlan read_study(const std::string& file, const std::vector<std::string>& overrides);

}  // namespace octet
