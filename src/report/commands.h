// Commands that read what runs wrote. Each returns the process's exit code.
#pragma once
#include <string>
#include <vector>

namespace octet {

struct StudyOptions {
  std::string file;                    // the study's YAML
  std::string directory;               // where runs and tables go; empty: studies/<name of the file>
  std::vector<std::string> overrides;  // key=value, for every run, after the study's own
  std::string only;                    // a regular expression: of the runs only those whose name it finds
  bool list = false;                   // print the runs and their states; execute nothing
  bool again = false;                  // try failed runs again
};
int run_study(const StudyOptions&);

// Writes RUN/inspect.html (or `output`): one page that needs nothing else.
int run_inspect(const std::string& run_directory, const std::string& output);

}  // namespace octet
