#include "src/run/checkpoint_store.h"

#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "kernels/base/durable_file.h"
#include "src/weights/digest.h"

namespace octet {
namespace {

namespace fs = std::filesystem;
constexpr const char* kStep = "step";

std::string name_of(int64_t step) { return fmt::format("step-{:08}.safetensors", step); }

std::optional<int64_t> step_of(const std::string& name) {
  int64_t step = -1;
  if (name.starts_with("step-")) std::from_chars(name.data() + 5, name.data() + name.size(), step);
  return step >= 0 && name == name_of(step) ? std::optional(step) : std::nullopt;
}

SafetensorsFile open_verified(const std::string& path, int64_t step) {
  SafetensorsFile file = SafetensorsFile::open(path);
  const char* fix = "use another checkpoint";
  REQUIRE_USAGE(has_digest(file), fix, "'", path, "' has no SHA-256 digest");
  require_unchanged(file, path);
  const auto of_step = file.metadata().find(kStep);
  const std::string named = of_step == file.metadata().end() ? "unknown" : of_step->second;
  REQUIRE_USAGE(named == std::to_string(step), fix, "'", path, "' is of step ", named);
  return file;
}

std::string folder_of(const std::string& run_directory) { return run_directory + "/checkpoints"; }

// Step -> file name.
std::map<int64_t, std::string> saved_in(const std::string& folder) {
  std::map<int64_t, std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (const auto step = step_of(name)) found[*step] = name;
  }
  return found;
}

}  // namespace

CheckpointStore::CheckpointStore(const std::string& run_directory, int64_t keep)
    : directory_(folder_of(run_directory)), keep_(keep) {
  REQUIRE(keep >= 1, "set it to at least 1", "checkpoints to keep: ", keep);
  make_directories(directory_, "check the permissions, or choose another run directory");
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory_))
    if (entry.path().extension() == ".tmp") fs::remove(entry.path(), error);
}

std::optional<CheckpointStore::Newest> CheckpointStore::newest_of(const std::string& run_directory) {
  const std::string folder = folder_of(run_directory);
  const auto all = saved_in(folder);
  if (all.empty()) return {};
  struct stat file = {};
  if (stat((folder + "/" + all.rbegin()->second).c_str(), &file) != 0) return {};
  return Newest{all.rbegin()->first, double(file.st_mtim.tv_sec) + 1e-9 * double(file.st_mtim.tv_nsec)};
}

void CheckpointStore::save(int64_t step, std::span<const NamedTensor> tensors,
                           std::map<std::string, std::string> metadata) {
  metadata[kStep] = std::to_string(step);
  add_digest(tensors, metadata);
  std::error_code ignored;  // what cannot be made shows in the next line
  fs::create_directories(directory_, ignored);
  write_safetensors(directory_ + "/" + name_of(step), tensors, metadata);
  write_durably(directory_ + "/latest", name_of(step) + "\n");
  prune(step);
}

// Removes all but keep_ checkpoints. Checkpoints of steps after `newest` are removed first. They remain if training was
// resumed from an earlier step.
void CheckpointStore::prune(int64_t newest) const {
  const auto all = saved_in(directory_);
  std::vector<int64_t> steps;
  for (const auto& [step, name] : all) steps.push_back(step);
  std::sort(steps.begin(), steps.end(),
            [&](int64_t a, int64_t b) { return std::pair(a > newest, -a) < std::pair(b > newest, -b); });
  std::error_code error;  // a file that cannot be removed is harmless
  for (size_t i = static_cast<size_t>(keep_); i < steps.size(); ++i)
    fs::remove(directory_ + "/" + all.at(steps[i]), error);
}

CheckpointStore::Found CheckpointStore::newest_valid(const Choice& takes) const {
  const auto all = saved_in(directory_);
  std::vector<int64_t> steps;
  for (auto entry = all.rbegin(); entry != all.rend(); ++entry) steps.push_back(entry->first);
  const std::string text = read_if_there(directory_ + "/latest", 1 << 10), latest = text.substr(0, text.find('\n'));
  Found found;
  if (const auto step = step_of(latest); step && all.contains(*step)) {
    std::stable_partition(steps.begin(), steps.end(), [&](int64_t other) { return other == *step; });
  } else if (!all.empty()) {
    found.refused.push_back("'" + directory_ + "/latest' does not name a checkpoint");
  }
  for (const int64_t step : steps) {
    found.path = directory_ + "/" + all.at(step);
    try {
      found.file = open_verified(found.path, step);
    } catch (const Error& error) {
      found.refused.emplace_back(error.what());
      continue;
    }
    found.step = step;
    if (!takes || takes(*found.file, found.path)) return found;
    found.file.reset();
  }
  found.path.clear();
  found.step = 0;
  return found;
}

}  // namespace octet
