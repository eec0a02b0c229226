#include "src/report/inspect/run_facts.h"

#include <filesystem>

#include "kernels/base/error.h"

namespace octet {

RunFacts read_run(const std::string& directory, const std::vector<std::string>& overrides) {
  std::filesystem::path path = std::filesystem::path(directory).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();  // "runs/a/"
  const std::string name = path.filename().string();
  RunFacts run{name.empty() || name == "." ? directory : name,
               read_records(directory),
               read_result(directory),
               {},
               read_answers(directory)};
  if (run.result && run.result->images > 0)
    run.records.steps_per_epoch = static_cast<double>(run.result->images_per_epoch) *
                                  static_cast<double>(run.result->steps) / static_cast<double>(run.result->images);
  const std::string file = directory + "/config.yaml";
  try {
    run.config = load_config(file, {});
  } catch (const UsageError&) {  // the page shows the file unchanged
    return run;
  }
  if (!overrides.empty()) run.config = load_config(file, overrides);
  return run;
}

}  // namespace octet
