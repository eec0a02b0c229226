// Command line -> Config -> the command. The only catch: prints what went wrong once, with the rank, and ends the job.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>

#include "kernels/backend.h"
#include "src/config/log.h"
#include "src/data/pack.h"
#include "src/report/commands.h"
#include "src/train/commands.h"
#include "src/train/directory_lock.h"
#include "src/train/run_directory.h"
#include "src/version.h"

namespace octet {
namespace {

struct Arguments {
  std::string config, weights, filter;
  std::vector<std::string> overrides, networks;
  TrainOptions train;
  int64_t steps = 30;
  bool json = false, peer = false;
};

void print_version() {
  std::cout << "octet " << version << " (commit " << commit << ")\nbackends: cpu" << (built_with_cuda() ? " cuda" : "")
            << "\ninstruction sets:";
  for (Isa isa : available_isas()) std::cout << ' ' << name_of(isa);
  std::cout << "\n";
}

int exit_code(const std::exception& error) {
  if (dynamic_cast<const InUseError*>(&error)) return exit_in_use;
  return dynamic_cast<const UsageError*>(&error) ? 2 : 1;
}

std::string message_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error))
    return "not enough memory; to mend: a smaller data.batch, or storage: int8; `octet plan` says what is needed";
  if (dynamic_cast<const std::filesystem::filesystem_error*>(&error) ||
      dynamic_cast<const std::ios_base::failure*>(&error))
    return say(error.what(), "; to mend: check the path, the space and the permissions");
  if (dynamic_cast<const std::system_error*>(&error))
    return say(error.what(), "; to mend: lower data.workers, or raise the limit of threads (ulimit -u)");
  return error.what();
}

int run(int argc, char** argv) {
  CLI::App app("octet trains convolutional networks in INT8: forward, data gradient and weight gradient.", "octet");
  app.set_help_flag("-h,--help", "Print this help");
  app.require_subcommand(0, 1);
  bool version_wanted = false;
  app.add_flag("--version", version_wanted, "Print the version, the commit and the instruction sets of this machine");
  app.footer(
      "Configuration keys: `octet help keys`. Exit codes: 0 done, 1 failure, 2 bad usage or configuration,\n"
      "75 run directory in use, 78 launcher and library do not match, 85 checkpointed after a signal.");

  Arguments a;
  const auto with_config = [&](CLI::App* command) {
    command->add_option("config", a.config, "YAML file, for example configs/shapes_resnet20_unified_int8.yaml")
        ->required();
    command->add_option("--set", a.overrides, "Override one key: --set train.lr=0.05 (repeatable)")
        ->allow_extra_args(false);
    return command;
  };
  CLI::App* train = with_config(app.add_subcommand("train", "Train, evaluate after each epoch, write a run directory"));
  train->add_option("--run", a.train.run_directory, "Run directory (default: runs/<configuration>)");
  train->add_flag("--resume", a.train.resume, "Go on from the newest valid checkpoint of the run directory");
  CLI::App* eval = with_config(app.add_subcommand("eval", "Evaluate weights on the test set"));
  eval->add_option("--weights", a.weights, "A safetensors file, for example a run's weights.safetensors")->required();
  CLI::App* plan =
      with_config(app.add_subcommand("plan", "Print the plan: nodes, encodings, memory; nothing is trained"));
  CLI::App* bench =
      app.add_subcommand("bench", "Time training steps of a configuration, `octet bench kernels`, or --peer");
  bench->add_option("config", a.networks,
                    "YAML file, or the word `kernels`; with --peer: networks, for example resnet20");
  bench->add_flag("--peer", a.peer, "Beside PyTorch: speed, memory, share of the roofline of four networks, in turn");
  bench->add_option("--set", a.overrides, "Override one key (repeatable)")->allow_extra_args(false);
  CLI::Option* steps = bench->add_option("--steps", a.steps, "Steps to time")->check(CLI::Range(1, 1000000));
  bench->add_option("--filter", a.filter, "kernels: a regular expression on their names");
  bench->add_flag("--json", a.json, "Print one JSON object");
  CLI::App* pack = with_config(app.add_subcommand("pack", "Decode a folder of images once, into two files of pixels"));
  std::string packed;
  pack->add_option("--output", packed, "Where train.pack and val.pack go; then data.name: packed, data.root: this")
      ->required();
  CLI::App* study =
      app.add_subcommand("study", "Run a grid of trainings, going on where it stopped, and write one table");
  StudyOptions study_options;
  study->add_option("study", study_options.file, "YAML file, for example configs/studies/table5_period.yaml")
      ->required();
  study->add_option("--directory", study_options.directory, "Where runs and tables go (default: studies/<study>)");
  study->add_option("--set", study_options.overrides, "Override one key of every run (repeatable)")
      ->allow_extra_args(false);
  study->add_option("--only", study_options.only, "Of the runs only those whose name this regular expression finds");
  study->add_flag("--list", study_options.list, "Print the runs and their states; execute nothing");
  study->add_flag("--again", study_options.again, "Try failed runs again");
  CLI::App* inspect = app.add_subcommand("inspect", "Write one HTML page about a run: curves, clips, gradients");
  std::string inspected, page;
  inspect->add_option("run", inspected, "The run's directory")->required();
  inspect->add_option("--output", page, "The page (default: RUN/inspect.html)");
  CLI::App* help = app.add_subcommand("help", "Print help; `octet help keys` lists every configuration key");
  std::string topic;
  help->add_option("topic", topic, "keys");

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return 2;
  }
  if (version_wanted) return print_version(), 0;
  REQUIRE_USAGE(topic.empty() || topic == "keys", "octet help, octet help keys, or octet COMMAND --help",
                "no help on `", topic, "`");
  if (help->parsed() && topic == "keys") return std::cout << describe_keys(), 0;
  if (help->parsed() || app.get_subcommands().empty()) return std::cout << app.help(), help->parsed() ? 0 : 2;
  if (a.peer) {
    REQUIRE_USAGE(a.overrides.empty() && a.filter.empty(), "start bench/peers/compare.py itself: it has more options",
                  "octet bench --peer takes networks, --steps and --json alone");
    std::vector<std::string> options;
    if (*steps) options.insert(options.end(), {"--steps", std::to_string(a.steps)});
    if (a.json) options.push_back("--json");
    return run_bench_peer(a.networks, options);
  }
  if (bench->parsed()) {
    REQUIRE_USAGE(a.networks.size() == 1, "name one: octet bench configs/cifar10_resnet20_unified_int8.yaml",
                  "octet bench takes one configuration, not ", a.networks.size());
    a.config = a.networks[0];
  }
  if (study->parsed()) return run_study(study_options);
  if (inspect->parsed()) return run_inspect(inspected, page);
  if (bench->parsed()) {
    REQUIRE_USAGE(a.filter.empty() || a.config == "kernels", "octet bench kernels --filter REGEX",
                  "--filter is for kernels alone");
    REQUIRE_USAGE(!*steps || a.config != "kernels", "leave --steps out",
                  "kernels are timed by the second, not by steps");
  }
  if (bench->parsed() && a.config == "kernels") return run_bench_kernels(a.filter, a.json, a.overrides);

  std::unique_ptr<Transport> transport = make_transport(&argc, &argv);
  setup_log(transport->rank());
  int code = 1;
  try {
    const Config config = load_config(a.config, a.overrides);
    require_same_on_ranks(config, *transport);
    if (train->parsed()) code = run_train(config, *transport, a.train);
    if (eval->parsed()) code = run_eval(config, *transport, a.weights);
    if (plan->parsed()) code = run_plan(config, *transport);
    if (bench->parsed()) code = run_bench(config, *transport, a.steps, a.json);
    if (pack->parsed()) {
      REQUIRE_USAGE(transport->size() == 1, "start octet pack without mpirun; data.workers gives it threads",
                    "octet pack runs on one rank, not on ", transport->size());
      std::error_code failed;  // the lock says it better
      std::filesystem::create_directories(packed, failed);
      const DirectoryLock lock(packed);  // two at once would write into one file
      const PackReport report = pack_image_folder(config, packed);
      std::cout << report.images << " images, " << report.skipped << " skipped, " << report.bytes / 1000000 << " MB in "
                << packed << "\n";
      code = 0;
    }
    transport->barrier();  // nobody leaves with a non-zero code while others still work
    return code;
  } catch (const std::exception& error) {
    code = exit_code(error);
    // Most mistakes stop every rank alike: rank 0 speaks first, and its abort silences the others: the launcher sends
    // them SIGTERM, which training takes for a wish to stop, and SIGKILL a second later.
    if (transport->rank() > 0) std::this_thread::sleep_for(std::chrono::seconds(2));
    std::fprintf(stderr, "octet: error%s: %s\n",
                 transport->size() > 1 ? say(" on rank ", transport->rank()).c_str() : "", message_of(error).c_str());
    std::fflush(nullptr);
    if (transport->size() > 1) transport->abort(code);
    return code;
  }
}

}  // namespace
}  // namespace octet

// Threads of libgomp wait for each other by spinning for milliseconds; beside any other busy process a step then takes
// ten times its time. libgomp reads its environment before main, so what the user left open is set here and the program
// starts over, once.
static void wait_briefly(char** argv) {
  if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
  setenv("GOMP_SPINCOUNT", "1000", 1);
  execv("/proc/self/exe", argv);  // returns only when there is no /proc: then the default stays
}

// Else the first file that is opened would take the place of a closed standard stream, and messages go into it.
static void open_standard_streams() {
  for (int stream = 0; stream < 3; ++stream)
    if (fcntl(stream, F_GETFD) < 0) static_cast<void>(open("/dev/null", O_RDWR));
}

int main(int argc, char** argv) {
  open_standard_streams();
  wait_briefly(argv);
  try {
    const int code = octet::run(argc, argv);
    const bool told = std::cout.flush() && std::fflush(stdout) == 0;
    const std::string_view command = argc > 1 ? argv[1] : "";
    if (told || command == "train" || command == "study") return code;  // what they make stands in their directories
    std::fprintf(stderr, "octet: error: standard output cannot be written: is the disk full?\n");
    return code == 0 ? 1 : code;
  } catch (const std::exception& error) {  // before there was a transport
    std::fprintf(stderr, "octet: error: %s\n", octet::message_of(error).c_str());
    return octet::exit_code(error);
  }
}
