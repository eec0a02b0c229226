// The commands of octet. Parses the command line, runs the command and reports an error that no rank has reported.
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "comm/transport.h"
#include "kernels/backend.h"
#include "kernels/base/error.h"
#include "kernels/base/stop_signals.h"
#include "src/commands/command.h"
#include "src/config/keys.h"
#include "src/config/log.h"
#include "src/config/path_kind.h"
#include "src/config/spelling.h"
#include "src/train/train.h"
#include "src/version.h"

namespace octet {

// Each is defined in the file of its name in src/commands.
DeclareCommand train_command, eval_command, predict_command, plan_command, bench_command, pack_command, make_command,
    draw_command, study_command, inspect_command, check_command, new_command, calibrate_command, status_command,
    export_command, help_command;

namespace {

struct Command {
  const char *name, *summary;
  DeclareCommand* declare;
};
constexpr Command commands[] = {
    {"train", "Train a network, evaluate it after each epoch, write a run directory", train_command},
    {"eval", "Evaluate weights or stored detections, on the test set or a folder with labels", eval_command},
    {"predict", "Say what images show, with trained weights", predict_command},
    {"export", "Write a trained network as a file of integers that other programs run", export_command},
    {"calibrate", "Measure the ranges of activations for weights that were trained without", calibrate_command},
    {"new", "Write a recipe for a folder of images, with a reason for each choice", new_command},
    {"check", "Check a data set of image files: classes, boxes, files, duplicates", check_command},
    {"plan", "Print the nodes of the network, their encodings and the memory; train nothing", plan_command},
    {"bench", "Time training steps, single kernels (`octet bench kernels`), or octet beside PyTorch (--peer)",
     bench_command},
    {"pack", "Decode a folder of images once, into two files of pixels", pack_command},
    {"make", "Write a drawn data set with objects as files, in COCO's layout", make_command},
    {"draw", "Write pictures of a data set with its boxes", draw_command},
    {"study", "Run a grid of trainings, continue where it stopped, write one table", study_command},
    {"status", "Say how far a run is, what each of its ranks does, and whether it hangs", status_command},
    {"inspect", "Write an HTML page about a run: curves, clips, gradients", inspect_command},
    {"help", "Print help; `octet help COMMAND` on a command, `octet help keys` on every configuration key",
     help_command},
};

void print_version() {
  std::cout << "octet " << version << " (commit " << commit << ")\n";
  if (std::string_view(commit) == "unknown")
    std::cout << "commit: octet was built outside of a git repository; cmake -DOCTET_COMMIT=... names it\n";
  std::cout << "backends: cpu" << (built_with_cuda() ? " cuda" : "") << "\ninstruction sets:";
  for (Isa isa : available_isas()) std::cout << ' ' << name_of(isa);
  std::cout << "\nused here: " << name_of(best_isa()) << "\ncompiler: " << compiler_name << "\nMPI: " << mpi_version()
            << "\nfp32 on CPUs: " << real_convolutions() << "\n";
  if (*gpu_libraries != '\0') std::cout << "GPU libraries: " << gpu_libraries << "\n";
}

// CLI11 names unknown commands as arguments, in reverse order.
void require_command(const std::string& word) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.emplace_back(command.name);
  const std::string nearest = nearest_word(word, names);
  REQUIRE_USAGE(word.starts_with('-') || std::ranges::find(names, word) != names.end(),
                nearest.empty() ? "use one of: " + joined(names, ", ") : "use `octet " + nearest + "`",
                "there is no command `", word, "`");
}

// How to give a word that a command does not take where it stands; empty: there is no guess.
std::string place_of(const CLI::App& command, const std::string& word) {
  const auto has = [&](const char* option) { return command.get_option_no_throw(option) != nullptr; };
  const size_t equals = word.find('=');
  if (has("--set") && equals != word.npos && find_key(word.substr(0, equals)) != nullptr) return "--set " + word;
  const PathKind kind = kind_of_path(word);
  if (has("--weights") && kind == PathKind::weights) return "--weights " + word;
  if (has("--run") && (kind == PathKind::run || kind == PathKind::folder)) return "--run " + word;
  return {};
}

[[noreturn]] void refuse(const CLI::App& app, const CLI::ParseError& error) {
  std::string command = "octet";
  for (const CLI::App* used : app.get_subcommands()) command += " " + used->get_name();
  const std::vector<std::string> unexpected = app.remaining(true);
  // A word that is not known comes before one that is missing: it may be the missing one, misspelt.
  const bool extra = (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                      dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) &&
                     !unexpected.empty();
  const std::string place =
      extra && !app.get_subcommands().empty() ? place_of(*app.get_subcommands().front(), unexpected.front()) : "";
  throw UsageError(__FILE__, __LINE__,
                   extra ? command + " does not take `" + joined(unexpected, " ") + "`" : std::string(error.what()),
                   (place.empty() ? "" : "write `" + place + "`; ") + "`" + command + " --help` prints what it takes");
}

int run(int argc, char** argv) {
  CLI::App app("octet trains convolutional networks in INT8: forward, data gradient and weight gradient.", "octet");
  app.set_help_flag("-h,--help", "Print this help");
  app.require_subcommand(0, 1);
  bool version_wanted = false;
  app.add_flag("--version", version_wanted,
               "Print the version, how octet was built and the instruction sets of this machine");
  app.footer("Configuration keys: `octet help keys`. Exit codes: `octet train --help`.");
  std::vector<std::pair<CLI::App*, Run>> declared;
  for (const Command& command : commands) {
    CLI::App* options = app.add_subcommand(command.name, command.summary);
    declared.emplace_back(options, command.declare(*options));
  }
  if (argc > 1) require_command(argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return print_folded(app.help()), 0;
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    refuse(app, error);
  }
  if (version_wanted) return print_version(), 0;
  for (const auto& [options, run] : declared)
    if (options->parsed()) return run();
  print_folded(app.help());
  return 2;
}

}  // namespace
}  // namespace octet

// Variables by which OpenMP's libraries put all threads of octet on one core, or start fewer than octet asks for.
// Clusters set them for other programs. octet's threads are those of backend.threads, on all cores that the launcher
// allows.
static void remove_limits(int, char**, char** environment) {
  constexpr std::string_view limits[] = {"OMP_PROC_BIND=",    "OMP_PLACES=",  "GOMP_CPU_AFFINITY=",    "KMP_AFFINITY=",
                                         "OMP_THREAD_LIMIT=", "OMP_DYNAMIC=", "OMP_MAX_ACTIVE_LEVELS="};
  char** kept = environment;
  for (char** variable = environment; *variable != nullptr; ++variable)
    if (std::ranges::none_of(limits, [&](auto name) { return std::string_view(*variable).starts_with(name); }))
      *kept++ = *variable;
  *kept = nullptr;
}
// Runs before the libraries are initialized: libgomp binds the first thread then, and the cores before that are
// forgotten.
__attribute__((section(".preinit_array"), used)) static void (*const before_libraries)(int, char**,
                                                                                       char**) = remove_limits;

// Threads of libgomp wait for each other by spinning for milliseconds. Beside any other busy process a step then takes
// ten times as long. libgomp reads its environment before main, so this sets what the user has not set, and starts the
// program once more.
static void wait_briefly(char** argv) {
  if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
  setenv("GOMP_SPINCOUNT", "1000", 1);
  execv("/proc/self/exe", argv);  // returns only where there is no /proc; the default is used then
}

// The first file that octet opens would otherwise take the number of a closed standard stream and receive its messages.
static void open_standard_streams() {
  for (int stream = 0; stream < 3; ++stream)
    if (fcntl(stream, F_GETFD) < 0) static_cast<void>(open("/dev/null", O_RDWR));
}

int main(int argc, char** argv) {
  // A scheduler may stop a job while it starts. The training finds the signal when it can write a checkpoint.
  if (argc > 1 && std::string_view(argv[1]) == "train") octet::hold(octet::training_stops);
  std::signal(SIGXFSZ, SIG_IGN);  // beyond the limit of `ulimit -f` a write fails, and the command says which
  open_standard_streams();
  wait_briefly(argv);
  prctl(PR_SET_NAME, "octet");  // after /proc/self/exe it would be "exe"
  octet::setup_log(0);
  try {
    const int code = octet::run(argc, argv);
    const std::string_view command = argc > 1 ? argv[1] : "";
    if (command != "train" && command != "study") octet::require_printed();  // these write their results to files
    return code;
  } catch (const std::exception& error) {
    return octet::report_error(error);
  }
}
