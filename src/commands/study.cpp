// `octet study`: runs a grid of trainings one after the other, each in a process of its own. Skips what is finished or
// runs elsewhere, resumes what was stopped, and writes one table. Several studies may share a directory.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <regex>

#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"
#include "kernels/base/stop_signals.h"
#include "src/commands/command.h"
#include "src/report/study/study_table.h"
#include "src/report/study/study_training.h"
#include "src/run/directory_lock.h"
#include "src/train/train.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

struct StudyOptions : Recipe {  // file: the study; overrides: for every run, after the study's own
  std::string directory;        // of runs and tables; empty: studies/<name of the file>
  std::string only;             // a regular expression: only the runs whose names it matches
  bool list = false;            // print the runs and their states; run nothing
  bool again = false;           // try failed runs again
};

// The line of the log that says what went wrong, or its last line. since: where the log of this training begins.
std::string reason_in(const fs::path& log, std::streamoff since, int code) {
  std::ifstream stream(log);
  stream.seekg(since);
  std::string last;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("octet: error")) return line;
    if (line.find_first_not_of("- ") != std::string::npos) last = line;
  }
  return fmt::format("{}{}exit code {}", last, last.empty() ? "" : "; ", code);
}

class Study {
 public:
  Study(const StudyOptions& options, StudyPlan plan, fs::path root)
      : options_(options), plan_(std::move(plan)), root_(std::move(root)) {}

  // Returns the exit code.
  int run(const std::vector<StudyRun>& runs) {
    stop_with_training();
    for (size_t i = 0; i < runs.size(); ++i) {
      std::cout << fmt::format("[{}/{}] ", i + 1, runs.size());
      if (!run_one(runs[i])) return exit_checkpointed;
    }
    if (options_.list) return require_printed(), 0;
    write_table();
    std::cout << (root_ / "table.md").string() << "\n" << (root_ / "study.html").string() << "\n";
    return all_well_ ? 0 : 1;
  }

 private:
  // Trains a run, or prints why it is not trained. False: a signal stopped the study.
  bool run_one(const StudyRun& run) {
    const fs::path directory = root_ / run.name;
    const bool elsewhere = DirectoryLock::held(directory.string());  // asked first: the run may finish meanwhile
    const bool finished = fs::exists(directory / "result.json"), failed = fs::exists(directory / "failed.txt");
    const bool begun = fs::exists(directory / "config.yaml");
    const std::string changed = changed_since(plan_, run, directory.string());
    const auto show = [&](const char* state, const std::string& more = "") {
      std::cout << fmt::format("{:<9} {}{}", state, printable(run.name), printable(more)) << std::endl;
      return true;
    };
    if (!elsewhere) all_well_ = all_well_ && changed.empty() && (finished || !failed || options_.again);
    if (elsewhere) return show("runs");
    if (!changed.empty()) return show("changed", ": " + changed + "; delete " + directory.string() + " to train again");
    if (finished) return show("finished");
    if (failed && (options_.list || !options_.again)) {
      const std::string text = read_if_there((directory / "failed.txt").string(), 1 << 20);
      const std::string reason = text.substr(0, text.find('\n'));
      return show("failed", ": " + reason + "; --again tries again");
    }
    if (options_.list) return show(begun ? "begun" : "to do");
    std::cout << fmt::format("{:<9} {} ... ", begun ? "resumed" : "started", printable(run.name)) << std::flush;
    return train(run, directory);
  }

  // False: a signal stopped the study.
  bool train(const StudyRun& run, const fs::path& directory) {
    fs::create_directories(directory);
    fs::remove(directory / "failed.txt");
    const fs::path log = directory / "train.log";
    const auto since = fs::exists(log) ? std::streamoff(fs::file_size(log)) : 0;
    const int code = run_training(command_of(run, directory), log);
    if (code == exit_checkpointed || (stop_requested() && code != 0)) {
      std::cout << (code == exit_checkpointed
                        ? "stopped; the same command continues\n"
                        : "stopped without a checkpoint; the same command continues from the last one\n");
      return false;
    }
    if (code == exit_in_use) {
      std::cout << "runs elsewhere\n";
      return true;
    }
    all_well_ = all_well_ && code == 0;
    const std::string reason = code == 0 ? "" : reason_in(log, since, code);
    if (code != 0) write_durably((directory / "failed.txt").string(), reason + "\n");
    std::cout << (code == 0 ? "done" : "failed: " + printable(reason)) << "\n";
    write_table();
    if (stop_requested()) std::cout << "stopped; the same command continues\n";
    return !stop_requested();
  }

  // Always with --resume: another study may have begun the run meanwhile.
  std::vector<std::string> command_of(const StudyRun& run, const fs::path& directory) const {
    std::vector<std::string> words;
    if (plan_.ranks > 1)  // ranks of one host share memory, and none listens to a network
      words = {"mpirun",     "--mca",
               "pml",        "ob1",
               "--mca",      "btl",
               "self,vader", "--bind-to",
               "none",       "--oversubscribe",
               "-n",         std::to_string(plan_.ranks)};
    words.insert(words.end(), {octet_, "train", plan_.base, "--run", directory.string(), "--resume"});
    for (const std::string& setting : run.overrides) words.insert(words.end(), {"--set", setting});
    return words;
  }

  void write_table() const {
    const DirectoryLock lock(root_.string(), DirectoryLock::Wait::as_long_as_it_takes);
    write_study_table(plan_, root_.string());
  }

  const StudyOptions& options_;
  const StudyPlan plan_;
  const fs::path root_;
  const std::string octet_ = fs::read_symlink("/proc/self/exe").string();  // read before a build replaces the file
  bool all_well_ = true;
};

int run(const StudyOptions& options) {
  StudyPlan plan = read_study(options.file, options.overrides);
  std::vector<StudyRun> runs = plan.runs;
  try {
    const std::regex only(options.only);
    std::erase_if(runs, [&](const StudyRun& run) { return !std::regex_search(run.name, only); });
  } catch (const std::regex_error&) {
    REQUIRE_USAGE(false, "for example --only 'resnet20-.*seed1'", "--only ", options.only,
                  " is not a valid regular expression");
  }
  REQUIRE_USAGE(!runs.empty(), "--list prints the names", "--only ", options.only, " matches none of ",
                plan.runs.size(), " runs");
  const fs::path root =
      options.directory.empty() ? fs::path("studies") / fs::path(options.file).stem() : fs::path(options.directory);
  if (!options.list) make_directories(root.string(), "choose a directory that can be written with --directory");
  return Study(options, std::move(plan), root).run(runs);
}

}  // namespace

Run study_command(CLI::App& app) {
  const auto options = std::make_shared<StudyOptions>();
  app.add_option("study", options->file, "YAML file, for example configs/studies/table5_period.yaml")
      ->type_name("FILE")
      ->required();
  app.add_option("--directory", options->directory, "Directory of runs and tables (default: studies/<study>)")
      ->type_name("DIR");
  add_overrides(app, options->overrides);
  app.add_option("--only", options->only, "Only the runs whose names match this regular expression");
  app.add_flag("--list", options->list, "Print the runs and their states; run nothing");
  app.add_flag("--again", options->again, "Try failed runs again");
  return [options] { return run(*options); };
}

}  // namespace octet
