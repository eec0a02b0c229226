#include "src/run/run_directory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>

#include "kernels/base/command_line.h"
#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"

namespace octet {
namespace {

constexpr const char* lasting_files[] = {"config.yaml", "result.json", "weights.safetensors", "best.safetensors"};
constexpr const char* records = "metrics.jsonl";

// A file that shows that the directory already holds a run; empty: there is none.
std::string trace_of_a_run(const std::filesystem::path& directory) {
  for (const char* file : lasting_files)
    if (std::filesystem::exists(directory / file)) return file;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory / "checkpoints", ignored))
    if (entry.path().extension() == ".safetensors") return "checkpoints/" + entry.path().filename().string();
  return {};
}

constexpr const char* choose_another = "choose a directory that can be written with --run";

void create(const std::string& directory) { make_directories(directory, choose_another); }

std::string created(const Config& config, const std::string& wanted, bool resume) {
  if (!wanted.empty() || resume) {
    std::string directory = directory_to_resume(config, wanted);
    create(directory);
    return directory;
  }
  create("runs");
  const std::string base = "runs/" + std::filesystem::path(config.file).stem().string();
  std::string directory = base;
  std::error_code error;
  for (int number = 2; !std::filesystem::create_directory(directory, error); ++number) {
    if (error) create(directory);  // says why
    directory = base + "-" + std::to_string(number);
  }
  return directory;
}

}  // namespace

std::string directory_to_resume(const Config& config, const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  std::string directory = "runs/" + std::filesystem::path(config.file).stem().string();
  REQUIRE_USAGE(!std::filesystem::exists(directory + "-2"), "choose one with --run",
                "there are several runs: ", directory, ", ", directory, "-2 ...");
  return directory;
}

std::optional<Config> config_of_run(const std::string& directory) {
  const std::string path = directory + "/config.yaml";
  try {
    const std::string text = read_if_there(path);
    return text.empty() ? std::nullopt : std::optional(parse_config(text, path, {}));
  } catch (const Error&) {
    return {};
  }
}

bool is_of_run(const std::string& file) {
  namespace fs = std::filesystem;
  const fs::path path = file, name = path.filename();
  const bool is_checkpoint = path.parent_path().filename() == "checkpoints" && path.extension() == ".safetensors";
  const bool is_known = name == records || std::ranges::count(lasting_files, name) > 0;
  const fs::path folder = is_checkpoint ? path.parent_path().parent_path() : path.parent_path();
  std::error_code unknown;
  return (is_checkpoint || is_known) && fs::is_regular_file(folder / "config.yaml", unknown) &&
         fs::is_regular_file(folder / records, unknown);
}

RunDirectory::RunDirectory(const Config& config, const std::string& wanted, bool resume)
    : path_(created(config, wanted, resume)),
      // The other ranks wait meanwhile, and their watchdogs give them ten times this.
      lock_(std::in_place, path_, DirectoryLock::Wait::a_little,
            config.comm.timeout_seconds > 0 ? config.comm.timeout_seconds : std::numeric_limits<double>::infinity()) {
  const std::string trace = resume ? "" : trace_of_a_run(path_);
  REQUIRE_USAGE(trace.empty(), "add --resume to continue it, or choose another directory with --run", path_,
                " holds an earlier run: ", trace);
}

// The lines of config.yaml with the command that began the run and the one that continues it.
static std::string commands_after(const std::string& before) {
  const std::string now = say("# ", command_line(), "\n");
  const std::string first = before.starts_with("# ") ? before.substr(0, before.find('\n') + 1) : now;
  return first == now ? now : say(first, "# continued by: ", command_line(), "\n");
}

void RunDirectory::begin(const Config& config) const {
  std::filesystem::remove(path_ + "/result.json");
  std::filesystem::remove(path_ + "/weights.safetensors");
  const std::string file = path_ + "/config.yaml";
  write_durably(file, commands_after(read_if_there(file)) + to_yaml(config));
}

void RunDirectory::make_again(const Config& config) {
  create(path_);
  lock_.emplace(path_, DirectoryLock::Wait::a_little, /*longest=*/0);
  begin(config);
}

std::optional<Difference> training_difference(const Config& before, const Config& now) {
  static const std::vector<std::string_view> free = {
      "train.steps", "train.patience", "train.eval_every_epochs", "train.log_every_steps", "train.prometheus",
      "data.root",   "data.workers",   "train.memory_mb"};
  // Without clips and scales, only recording needs a ClipCoordinator, whose state is in checkpoints.
  const bool clips = now.policy.clip.enabled || now.policy.lr_scale.enabled;
  return first_difference(before, now, [&](std::string_view path) {
    if (path == "comm.exchange") return true;
    if (path == "train.accumulate") return now.comm.exchange != "exact";
    const bool on_gpu = now.backend.device == "cuda";  // where NCCL orders the sums of more than two ranks
    if (path == "comm.bucket_mb") return on_gpu && now.comm.exchange == "fp32";
    if (path == "comm.transport") return on_gpu;
    if (path == "policy.clip.record_histograms") return !clips;
    // With `stop` before, no such event occurred in the steps done so far, so another value changes nothing.
    if (path == "data.bad_images") return before.data.bad_images != "stop";
    // Another view than that of `auto` is refused at the first image whose annotated size says so.
    if (path == "data.turn_upright") return before.data.turn_upright != "auto" || now.data.bad_images != "stop";
    if (path == "data.max_pixels")
      return before.data.bad_images != "stop" || now.data.max_pixels < before.data.max_pixels;
    if (path == "train.on_nonfinite") return before.train.on_nonfinite != "stop";
    for (const std::string_view section : {"backend.", "comm.", "checkpoint."})
      if (path.starts_with(section)) return false;
    return std::find(free.begin(), free.end(), path) == free.end();
  });
}

void require_same_on_ranks(const Config& config, Transport& transport) {
  std::string first = to_yaml(config);
  uint64_t size = first.size();
  transport.broadcast(std::as_writable_bytes(std::span(&size, 1)), 0);
  first.resize(size);
  transport.broadcast(std::as_writable_bytes(std::span(first)), 0);
  const auto difference =
      first_difference(parse_config(first, "rank 0's configuration", {}), config, [](std::string_view path) {
        return path != "data.root" && path != "data.workers" && path != "backend.threads" && path != "backend.isa";
      });
  REQUIRE_USAGE(!difference, "give every rank the same configuration: a file that all hosts see, the same --set",
                "rank 0 has `", difference->before, "`, this rank `", difference->now, "`");
}

}  // namespace octet
