#include "src/report/study/study_training.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "kernels/base/error.h"
#include "kernels/base/stop_signals.h"
#include "src/train/train.h"

namespace octet {
namespace {

constexpr std::initializer_list<int> stop_signals = {SIGINT, SIGTERM, SIGUSR1};

// The child process after fork(). Becomes the training.
[[noreturn]] void become(const std::vector<char*>& arguments, pid_t study, int log, const sigset_t& signals) {
  setpgid(0, 0);  // Ctrl-C in the terminal would also reach mpirun, which kills its ranks before their checkpoint
  for (int signal : stop_signals) std::signal(signal, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGUSR1);  // for a study that is killed
  if (getppid() != study) _exit(127);
  // srun or mpirun may have started a study on each of several nodes. Their trainings are no ranks of one job.
  std::vector<std::string> inherited;
  for (char** entry = environ; *entry != nullptr; ++entry) inherited.emplace_back(*entry, strcspn(*entry, "="));
  for (const std::string& name : inherited)
    for (const char* prefix : {"OMPI_COMM_WORLD_", "PMI_", "PMIX_", "SLURM_STEP_NUM_TASKS"})
      if (name.starts_with(prefix)) unsetenv(name.c_str());
  if (geteuid() == 0) {  // in a container; as launch/mpirun.sh
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  }
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);  // a process of another group that reads the terminal is stopped
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execvp(arguments[0], arguments.data());
  dprintf(STDERR_FILENO, "octet: error: %s cannot be run: %s\n", arguments[0], strerror(errno));
  _exit(127);
}

}  // namespace

void stop_with_training() { stop_on(stop_signals); }

int run_training(const std::vector<std::string>& words, const std::filesystem::path& log) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (file < 0) throw std::filesystem::filesystem_error("cannot write", log, {errno, std::generic_category()});
  struct stat found = {};
  const bool ours = fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_nlink <= 1;
  if (!ours) close(file);
  REQUIRE_USAGE(ours, "move it away", log.string(), " is no log of a training: another file or a device is behind it");
  sigset_t stops, before;
  sigemptyset(&stops);
  for (int signal : stop_signals) sigaddset(&stops, signal);
  sigprocmask(SIG_BLOCK, &stops, &before);  // until the handler knows the process that it has to tell
  if (stop_requested()) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    close(file);
    return exit_checkpointed;
  }
  const pid_t study = getpid(), child = fork();
  if (child == 0) become(arguments, study, file, before);
  forward_stop_to(std::max(child, 0));
  sigprocmask(SIG_SETMASK, &before, nullptr);
  close(file);
  REQUIRE(child > 0, "free some memory", "no process for ", words.front());
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  forward_stop_to(0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace octet
