// What the files of a run hold.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/report/records.h"
#include "src/run/result.h"
#include "src/tasks/classification/class_answers.h"

namespace octet {

struct RunFacts {
  std::string name;  // the last part of its directory
  RunRecords records;
  std::optional<Result> result;         // of a finished run
  std::optional<Config> config;         // empty: there is none, or another version wrote it
  std::optional<ClassAnswers> answers;  // of a classifier
};
// overrides: of the configuration, "key=value". UsageError: the directory holds no run, or one of its files is damaged.
RunFacts read_run(const std::string& directory, const std::vector<std::string>& overrides = {});

std::string duration_text(double seconds);  // "4.2 s", "12 min 5 s", "3 h 25 min"

}  // namespace octet
