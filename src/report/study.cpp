// `octet study`: runs a grid one after the other, each in a process of its own (a run that diverges or crashes ends
// alone), skips what is finished or runs elsewhere, resumes what is not, and writes one table. Several studies may
// share a directory.
#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <regex>

#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"
#include "src/report/commands.h"
#include "src/report/study_table.h"
#include "src/train/commands.h"
#include "src/train/directory_lock.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

// The line that says what went wrong, or the last one, of what the log was added since.
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

// A signal handler can reach nothing but globals; only this file sees them.
volatile std::sig_atomic_t training = 0, stop_wanted = 0;  // training: its process, 0 between two

// Whatever asks the study to end is passed on as SIGUSR1, which mpirun hands to every rank: the training writes a
// checkpoint and ends, then the study.
class StopWithTraining {
 public:
  StopWithTraining() {
    struct sigaction action = {};
    action.sa_handler = [](int) {
      stop_wanted = 1;
      if (training > 0) kill(training, SIGUSR1);
    };
    for (size_t i = 0; i < std::size(signals); ++i) sigaction(signals[i], &action, &before_[i]);
    before_pipe_ = std::signal(SIGPIPE, SIG_IGN);  // `| tee` dies of the same Ctrl-C
  }
  ~StopWithTraining() {
    for (size_t i = 0; i < std::size(signals); ++i) sigaction(signals[i], &before_[i], nullptr);
    std::signal(SIGPIPE, before_pipe_);
  }
  StopWithTraining(const StopWithTraining&) = delete;
  StopWithTraining& operator=(const StopWithTraining&) = delete;

  static constexpr int signals[] = {SIGINT, SIGTERM, SIGUSR1};

 private:
  struct sigaction before_[std::size(signals)] = {};
  sighandler_t before_pipe_ = SIG_DFL;
};

// Runs a command to its end with its output appended to a file.
int execute(const std::vector<std::string>& words, const fs::path& log) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  REQUIRE(file >= 0, "choose another --directory", "cannot write ", log.string());
  sigset_t stops, before;
  sigemptyset(&stops);
  for (int signal : StopWithTraining::signals) sigaddset(&stops, signal);
  sigprocmask(SIG_BLOCK, &stops, &before);  // until the handler knows whom to tell
  if (stop_wanted != 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    close(file);
    return exit_checkpointed;
  }
  const pid_t study = getpid(), child = fork();
  if (child == 0) {
    setpgid(0, 0);  // Ctrl-C in the terminal would reach mpirun too, which kills its ranks before their checkpoint
    for (int signal : StopWithTraining::signals) std::signal(signal, SIG_DFL);
    std::signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    prctl(PR_SET_PDEATHSIG, SIGUSR1);  // where the study is killed
    if (getppid() != study) _exit(127);
    // One study is started on each of two nodes by srun or mpirun; their trainings are no ranks of one job.
    std::vector<std::string> inherited;
    for (char** entry = environ; *entry != nullptr; ++entry) inherited.emplace_back(*entry, strcspn(*entry, "="));
    for (const std::string& name : inherited)
      for (const char* prefix : {"OMPI_COMM_WORLD_", "PMI_", "PMIX_", "SLURM_STEP_NUM_TASKS"})
        if (name.starts_with(prefix)) unsetenv(name.c_str());
    if (geteuid() == 0) {  // in a container; as launch/mpirun.sh
      setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
      setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    }
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);  // reading the terminal from another group would stop it
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    execvp(arguments[0], arguments.data());
    dprintf(STDERR_FILENO, "octet: error: %s cannot be run: %s\n", arguments[0], strerror(errno));
    _exit(127);
  }
  training = std::max(child, 0);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  close(file);
  REQUIRE(child > 0, "free some memory", "no process for ", words.front());
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  training = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Always with --resume: another study may have begun the run since it was looked at.
std::vector<std::string> command_of(const std::string& octet, const StudyPlan& plan, const StudyRun& run,
                                    const fs::path& directory) {
  std::vector<std::string> words;
  if (plan.ranks > 1) words = {"mpirun", "--bind-to", "none", "--oversubscribe", "-n", std::to_string(plan.ranks)};
  words.insert(words.end(), {octet, "train", plan.base, "--run", directory.string(), "--resume"});
  for (const std::string& setting : run.overrides) words.insert(words.end(), {"--set", setting});
  return words;
}

void write_table(const StudyPlan& plan, const std::string& root) {
  const DirectoryLock lock(root, DirectoryLock::Wait::as_long_as_it_takes);
  write_study_table(plan, root);
}

}  // namespace

int run_study(const StudyOptions& options) {
  const StudyPlan plan = read_study(options.file, options.overrides);
  std::vector<StudyRun> runs = plan.runs;
  try {
    const std::regex only(options.only);
    std::erase_if(runs, [&](const StudyRun& run) { return !std::regex_search(run.name, only); });
  } catch (const std::regex_error&) {
    REQUIRE_USAGE(false, "for example --only 'resnet20-.*seed1'", "--only ", options.only, " is no regular expression");
  }
  REQUIRE_USAGE(!runs.empty(), "see the names with --list", "--only ", options.only, " finds none of ",
                plan.runs.size(), " runs");
  const fs::path root =
      options.directory.empty() ? fs::path("studies") / fs::path(options.file).stem() : fs::path(options.directory);
  std::error_code error;
  if (!options.list) fs::create_directories(root, error);
  REQUIRE_USAGE(!error, "choose a directory that can be written with --directory", "cannot create ", root.string(),
                ": ", error.message());
  bool all_well = true;
  const std::string octet = fs::read_symlink("/proc/self/exe").string();  // before it is built anew, and "(deleted)"
  const StopWithTraining stop_with_training;
  for (size_t i = 0; i < runs.size(); ++i) {
    const StudyRun& run = runs[i];
    const fs::path directory = root / run.name;
    const bool runs_elsewhere = DirectoryLock::held(directory.string());  // asked first: it may finish meanwhile
    const bool finished = fs::exists(directory / "result.json"), failed = fs::exists(directory / "failed.txt");
    const bool begun = fs::exists(directory / "config.yaml");
    const std::string changed = changed_since(plan, run, directory.string());
    const char* state = runs_elsewhere     ? "runs"
                        : !changed.empty() ? "changed"
                        : finished         ? "finished"
                        : failed           ? "failed"
                        : begun            ? "begun"
                                           : "to do";
    if (options.list || runs_elsewhere || !changed.empty() || finished || (failed && !options.again)) {
      std::cout << fmt::format("[{}/{}] {:<9} {}", i + 1, runs.size(), state, run.name);
      if (!changed.empty()) std::cout << fmt::format(": {}; delete {} to train it anew", changed, directory.string());
      if (std::string reason; state == std::string_view("failed"))
        std::cout << ": " << (std::getline(std::ifstream(directory / "failed.txt"), reason), reason)
                  << "; --again tries it anew";
      std::cout << std::endl;
      all_well = all_well && changed.empty() && (finished || !failed);
      continue;
    }
    std::cout << fmt::format("[{}/{}] {:<9} {} ... ", i + 1, runs.size(), begun ? "resumed" : "started", run.name)
              << std::flush;
    fs::create_directories(directory);
    fs::remove(directory / "failed.txt");
    const fs::path log = directory / "train.log";
    const auto since = fs::exists(log) ? std::streamoff(fs::file_size(log)) : 0;
    const int code = execute(command_of(octet, plan, run, directory), log);
    if (code == exit_checkpointed || (stop_wanted != 0 && code != 0)) {
      std::cout << (code == exit_checkpointed
                        ? "stopped; the same command goes on\n"
                        : "stopped without a checkpoint; the same command goes on from the last\n");
      return exit_checkpointed;
    }
    if (code == exit_in_use) {
      std::cout << "runs elsewhere\n";
      continue;
    }
    all_well = all_well && code == 0;
    const std::string reason = code == 0 ? "" : reason_in(log, since, code);
    if (code != 0) write_durably((directory / "failed.txt").string(), reason + "\n");
    std::cout << (code == 0 ? "done" : "failed: " + reason) << "\n";
    write_table(plan, root.string());
    if (stop_wanted != 0) {
      std::cout << "stopped; the same command goes on\n";
      return exit_checkpointed;
    }
  }
  if (options.list) return 0;
  write_table(plan, root.string());
  std::cout << (root / "table.md").string() << "\n";
  return all_well ? 0 : 1;
}

}  // namespace octet
