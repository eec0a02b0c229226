#include "src/run/resume_point.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "kernels/base/durable_file.h"
#include "src/run/arithmetic.h"
#include "src/run/run_directory.h"

namespace octet {
namespace {

std::optional<Config> config_of(const SafetensorsFile& checkpoint, const std::string& path) {
  const auto saved = checkpoint.metadata().find("config");
  if (saved == checkpoint.metadata().end()) return {};
  return parse_config(saved->second, path + "'s configuration", {});
}

// The key for which a training of `before` cannot go on as `now`.
std::optional<Difference> hindrance(Config before, const Config& now) {
  before.train.epochs = std::max(before.train.epochs, now.train.epochs);
  return training_difference(before, now);
}

// Why a checkpoint is not of this run; empty: it is. A configuration that differs from the present one is no reason,
// since the user may have changed it, but one from which the run's last start could not have gone on.
std::string why_foreign(const SafetensorsFile& checkpoint, const std::string& path, const std::string& run_directory,
                        const Config& now, const TrainingData& data) {
  if (const auto before = config_of(checkpoint, path))
    if (const auto difference = hindrance(*before, now)) {
      const auto of_run = config_of_run(run_directory);
      if (!of_run || !hindrance(*before, *of_run)) return {};
      return say(path, " is of another run: it was made with `", difference->before, "`, not with `", difference->now,
                 "`");
    }
  const auto saved = checkpoint.metadata().find("data");
  if (saved == checkpoint.metadata().end() || saved->second == data.fingerprint) return {};
  return say(path, " was trained on other data than ", data.description);
}

// Steps of another arithmetic would end with weights that neither commit gives.
void require_same_arithmetic(const SafetensorsFile& checkpoint, const std::string& path) {
  const auto saved = checkpoint.metadata().find(arithmetic_key);
  const int own = saved == checkpoint.metadata().end() ? 1 : std::atoi(saved->second.c_str());
  const bool later = own > arithmetic;
  REQUIRE_USAGE(own == arithmetic,
                later ? "continue it with the octet that began it"
                      : say("continue it with octet of commit ", last_commits[std::max(own, 1) - 1],
                            ", or start a new run from its weights: model.initial_weights"),
                path, " was made by ", later ? "a later" : "an earlier", " octet, which computes other bits");
}

void require_same_training(const Config& before, const std::string& path, const Config& now) {
  const auto difference = hindrance(before, now);
  REQUIRE_USAGE(!difference, "resume with the configuration that the run was started with, or start a new run", path,
                ": the run was started with `", difference->before, "`, now it is `", difference->now, "`");
  if (before.train.epochs < now.train.epochs)
    spdlog::warn(
        "the run was planned for {} epochs and goes on to {}: its learning rate so far was that of the shorter run, so "
        "the weights will be others than those of {} epochs in one run",
        before.train.epochs, now.train.epochs, now.train.epochs);
}

}  // namespace

CheckpointStore::Found resume_point(const CheckpointStore& store, const std::string& run_directory, const Config& now,
                                    const TrainingData& data, std::optional<int64_t> finished) {
  std::vector<std::string> foreign;
  CheckpointStore::Found found = store.newest_valid([&](const SafetensorsFile& file, const std::string& path) {
    const std::string reason = why_foreign(file, path, run_directory, now, data);
    if (!reason.empty()) foreign.push_back(reason);
    return reason.empty();
  });
  for (const std::string& reason : found.refused) spdlog::warn("{}", reason);
  if (found.file) {
    for (const std::string& reason : foreign) spdlog::warn("{}; it is not used", reason);
    if (found.step != finished) require_same_arithmetic(*found.file, found.path);
    if (const auto before = config_of(*found.file, found.path)) require_same_training(*before, found.path, now);
    return found;
  }
  REQUIRE_USAGE(foreign.empty(),
                "resume with the configuration and the data that the run was started with, or start a new run; move "
                "checkpoints of other runs away",
                foreign.front());
  if (!found.refused.empty())
    throw NoCheckpointError(__FILE__, __LINE__, say("none of ", run_directory, "'s checkpoints can be used"),
                            "do what the warnings say; to start over, move the folder of checkpoints away");
  return found;
}

}  // namespace octet
