#include "src/report/inspect/run_facts.h"

#include <fmt/format.h>

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

std::string duration_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 1 : 0);
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

}  // namespace octet
