#include "src/train/run_directory.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "kernels/base/error.h"
#include "src/train/durable_file.h"

namespace octet {
namespace {

bool holds_checkpoints(const std::filesystem::path& directory) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory / "checkpoints", ignored))
    if (entry.path().extension() == ".safetensors") return true;
  return false;
}

// What may change between a run and its continuation without changing what each step computes.
Config comparable(Config config) {
  const Config defaults;
  config.file.clear();
  config.train.steps = defaults.train.steps;
  config.train.eval_every_epochs = defaults.train.eval_every_epochs;
  config.train.log_every_steps = defaults.train.log_every_steps;
  config.data.root = defaults.data.root;
  config.data.workers = defaults.data.workers;
  const std::string real_layers = config.backend.real_layers;
  config.backend = defaults.backend;
  config.backend.real_layers = real_layers;
  config.comm = defaults.comm;
  if (config.policy.clip.enabled || config.policy.lr_scale.enabled)  // else it decides what a checkpoint holds
    config.policy.clip.record_histograms = defaults.policy.clip.record_histograms;
  config.checkpoint = defaults.checkpoint;
  return config;
}

void create(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  REQUIRE_USAGE(!error, "choose a directory that can be written with --run", "cannot create ", directory.string(), ": ",
                error.message());
}

std::string created(const Config& config, const std::string& wanted, bool resume) {
  if (!wanted.empty() || resume) {
    const std::string directory =
        wanted.empty() ? "runs/" + std::filesystem::path(config.file).stem().string() : wanted;
    create(directory);
    return directory;
  }
  create("runs");
  const std::string base = "runs/" + std::filesystem::path(config.file).stem().string();
  std::string directory = base;
  std::error_code error;
  for (int number = 2; !std::filesystem::create_directory(directory, error); ++number) {
    REQUIRE_USAGE(!error, "choose a directory that can be written with --run", "cannot create ", directory, ": ",
                  error.message());
    directory = base + "-" + std::to_string(number);
  }
  return directory;
}

}  // namespace

RunDirectory::RunDirectory(const Config& config, const std::string& wanted, bool resume)
    : path_(created(config, wanted, resume)),
      // The other ranks wait meanwhile, no longer than their watchdogs let them.
      lock_(
          path_, DirectoryLock::Wait::a_little,
          config.comm.timeout_seconds > 0 ? config.comm.timeout_seconds / 2 : std::numeric_limits<double>::infinity()) {
  REQUIRE_USAGE(resume || !holds_checkpoints(path_), "add --resume to go on, or name another directory with --run",
                path_, " holds the checkpoints of an earlier run");
  write_durably(path_ + "/config.yaml", to_yaml(config));
}

void require_same_training(const Config& now, const std::string& saved_yaml) {
  std::istringstream before(to_yaml(comparable(parse_config(saved_yaml, "the checkpoint's configuration", {}))));
  std::istringstream after(to_yaml(comparable(now)));
  std::string old_line, new_line, section;
  while (std::getline(before, old_line) && std::getline(after, new_line)) {
    REQUIRE_USAGE(old_line == new_line, "resume with the configuration the run was started with, or start a new run",
                  "the checkpoint was trained with `", section, old_line, "`, now it is `", new_line, "`");
    if (!old_line.empty() && old_line[0] != ' ') section = old_line + " ";
  }
}

}  // namespace octet
