// `octet bench`: how fast the training steps of a configuration are on this machine.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "src/commands/command.h"
#include "src/train/host_limits.h"
#include "src/train/trainer.h"
#include "src/version.h"

namespace octet {

// Times each hot kernel at the sizes of real layers. filter: a regular expression on their names; overrides: key=value,
// for backend.device, backend.isa and backend.threads. Returns the exit code of the process.
int bench_kernels(const std::string& filter, bool json, const std::vector<std::string>& overrides);
// Times the integer network of the configuration, with invented weights, on batches of data.batch images.
int bench_deployed(const Config&, Transport&, int64_t answers, bool json);

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t warm_up = 3;  // steps: the arena's pages, oneDNN's kernels, the first clips
constexpr int64_t logged = 4;   // steps whose loops are noted, after those that are timed

// The kernels that ran since `before`, the slowest first. times: the kernels of `before` in the same order, then
// others.
Json kernels_since(const std::vector<KernelTime>& before, std::vector<KernelTime> times, double steps) {
  for (size_t i = 0; i < before.size(); ++i) {
    times[i].calls -= before[i].calls;
    times[i].seconds -= before[i].seconds;
  }
  std::erase_if(times, [](const KernelTime& time) { return time.calls == 0; });
  std::ranges::stable_sort(times, std::greater{}, &KernelTime::seconds);
  Json kernels = Json::array();
  for (const KernelTime& kernel : times)
    kernels.push_back(
        {{"name", kernel.name}, {"calls", double(kernel.calls) / steps}, {"ms", 1e3 * kernel.seconds / steps}});
  return kernels;
}

// Seconds of steps, the shortest first: of all, of those that search clips, and of the others.
struct StepSeconds {
  std::vector<double> all, searching, others;
};
StepSeconds timed_steps(Trainer& trainer, int64_t first, int64_t steps) {
  using Clock = std::chrono::steady_clock;
  StepSeconds seconds;
  const ClipCoordinator* const clips = trainer.training_step().clips();
  for (int64_t step = first; step < first + steps; ++step) {
    const auto start = Clock::now();
    trainer.step(step, false);
    const double taken = std::chrono::duration<double>(Clock::now() - start).count();
    seconds.all.push_back(taken);
    (clips != nullptr && clips->observing() ? seconds.searching : seconds.others).push_back(taken);
  }
  for (std::vector<double>* of : {&seconds.all, &seconds.searching, &seconds.others}) std::ranges::sort(*of);
  return seconds;
}
// In milliseconds; null of none.
Json median_of(const std::vector<double>& sorted) {
  return sorted.empty() ? Json() : Json(1e3 * sorted[sorted.size() / 2]);
}

// Milliseconds of each phase of a step.
Json phases_of(const PhaseTimes& times, double steps) {
  Json phases;
  for (int p = 0; p < static_cast<int>(Phase::count); ++p)
    phases[name_of(static_cast<Phase>(p))] = 1e3 * times.seconds[p] / steps;
  return phases;
}

// Collective. Runs the steps; what it returns is complete on rank 0.
Json measure(Trainer& trainer, const Config& config, Transport& transport, int64_t steps) {
  for (int64_t step = 0; step < warm_up; ++step) trainer.step(step, false);
  // The kernels of a GPU end long after their launch, and the host cannot see the phases of recorded steps.
  const bool timed = config.backend.device == "cpu" || config.backend.check_kernels;
  trainer.training_step().time_phases(timed);
  const std::vector<KernelTime> kernels = trainer.backend().kernel_times();
  const double read_before = trainer.read_seconds(), count = double(steps);
  // Steps are numbered as in the middle of a training, where clips are searched once in a period. The first steps of a
  // training search them more often.
  const StepSeconds seconds = timed_steps(trainer, config.policy.clip.period + 1, steps);
  const double read = (trainer.read_seconds() - read_before) / count, median = seconds.all[seconds.all.size() / 2];
  // The most memory of this process so far, code and libraries included.
  double resident = double(bytes_in_proc("/proc/self/status", "VmHWM"));
  transport.all_reduce_sum(std::span(&resident, 1));

  const Work work = trainer.training_step().plan().work();
  const int64_t ranks = transport.size();
  const auto seconds_of = [&](Phase phase) {
    return trainer.training_step().times().seconds[static_cast<int>(phase)] / count;
  };
  const double convolutions =
      seconds_of(Phase::forward) + seconds_of(Phase::backward_data) + seconds_of(Phase::backward_weight);
  const double passes = seconds_of(Phase::passes) + seconds_of(Phase::quantize);
  return {{"config", config.file},
          {"images_per_second", double(config.data.batch) / median},
          {"step_ms", 1e3 * median},
          {"step_ms_min", 1e3 * seconds.all.front()},
          {"step_ms_max", 1e3 * seconds.all.back()},
          {"step_ms_searching_clips", median_of(seconds.searching)},
          {"step_ms_others", median_of(seconds.others)},
          {"steps", steps},
          {"steps_searching_clips", seconds.searching.size()},
          {"batch", config.data.batch},
          {"ranks", ranks},
          {"isa", trainer.backend().isa()},
          {"backend_note", trainer.backend().note()},
          {"phases", timed ? phases_of(trainer.training_step().times(), count) : Json()},
          {"kernels", kernels_since(kernels, trainer.backend().kernel_times(), count)},
          {"loader_processor_ms", 1e3 * read},
          {"convolution_tops", timed ? Json(2e-12 * double(work.products) / convolutions) : Json()},
          {"pass_gigabytes_per_second", timed ? Json(1e-9 * double(work.pass_bytes) / passes) : Json()},
          {"arena_bytes", trainer.training_step().plan().arena_bytes()},
          {"scratch_bytes", trainer.backend().scratch_bytes()},
          {"peak_resident_bytes", resident},
          {"operations_per_step",
           {{"int8", 2 * ranks * (work.products - work.real_products)}, {"real", 2 * ranks * work.real_products}}},
          {"bytes_per_step",
           {{"convolutions", ranks * work.convolution_bytes},
            {"passes", ranks * work.pass_bytes},
            {"update", ranks * work.update_bytes}}},
          {"wire_bytes_per_step", trainer.training_step().exchange().wire_bytes() / (steps + warm_up)},
          {"exchange_busy_ms", 1e3 * trainer.training_step().exchange().busy_seconds() / double(steps + warm_up)},
          {"exchange_hidden_share", trainer.hidden_share()},
          {"commit", commit}};
}

// Collective. What the threads of this rank do in some more steps, as shares of their time. Null where loops that
// octet does not know compute, too.
Json thread_shares(Trainer& trainer, int64_t first) {
  LoopLog* const log = trainer.backend().loops();
  if (log == nullptr || !trainer.training_step().policy().computes_in_own_loops()) return {};
  log->start(LoopLog::Mode::times);
  double all = 0, busy = 0, waiting = 0;
  for (const double seconds : timed_steps(trainer, first, logged).all) all += seconds * trainer.shares().threads();
  for (const auto& [key, loop] : log->loops()) busy += loop.busy, waiting += loop.waiting;
  log->start(LoopLog::Mode::off);
  return {{"busy", busy / all}, {"imbalance", waiting / all}, {"serial", 1 - (busy + waiting) / all}};
}

void print(const Json& result, const std::string& backend) {
  const auto number = [&](const char* name, double factor = 1) { return factor * result[name].get<double>(); };
  const auto text = [](const Json& value) { return value.get<std::string>(); };
  const std::string note = text(result["backend_note"]);
  fmt::print("{}: {} steps of {:.0f} images on {:.0f} rank(s), {} {}{}\n", text(result["config"]),
             result["steps"].get<int64_t>(), number("batch"), number("ranks"), backend, text(result["isa"]),
             note.empty() ? "" : " (" + note + ")");
  fmt::print("step {:.2f} ms median ({:.2f} to {:.2f}), {:.0f} img/s, arena {:.1f} MB, peak resident {:.1f} MB\n",
             number("step_ms"), number("step_ms_min"), number("step_ms_max"), number("images_per_second"),
             number("arena_bytes", 1e-6), number("peak_resident_bytes", 1e-6));
  if (const int64_t searching = result["steps_searching_clips"].get<int64_t>(); searching > 0)
    fmt::print(
        "  {} of the steps search clips: {:.2f} ms median{}\n", searching, number("step_ms_searching_clips"),
        result["step_ms_others"].is_null() ? "" : fmt::format("; the others {:.2f} ms", number("step_ms_others")));
  if (const Json& shares = result["thread_shares"]; !shares.is_null())
    fmt::print(
        "its threads work {:.1f} % of the time, wait {:.1f} % for the busiest; in {:.1f} % one works alone, or they "
        "wake\n",
        100 * shares["busy"].get<double>(), 100 * shares["imbalance"].get<double>(),
        100 * shares["serial"].get<double>());
  for (const auto& [name, milliseconds] : result["phases"].items())
    fmt::print("  {:<16} {:8.2f} ms\n", name, milliseconds.get<double>());
  for (const Json& kernel : result["kernels"])
    fmt::print("    {:<60} {:6.1f} calls {:9.3f} ms\n", text(kernel["name"]), kernel["calls"].get<double>(),
               kernel["ms"].get<double>());
  fmt::print("the loader's threads take {:.2f} ms of processor time for a batch, beside the step\n",
             number("loader_processor_ms"));
  if (!result["convolution_tops"].is_null())
    fmt::print("convolutions {:.3f} TOPS, passes {:.1f} GB/s (this rank)\n", number("convolution_tops"),
               number("pass_gigabytes_per_second"));
}

int bench_steps(const Config& config, Transport& transport, int64_t steps, bool json) {
  Trainer trainer(config, transport);
  trainer.load_initial_weights();
  trainer.start(0);
  Json result = measure(trainer, config, transport, steps);
  result["thread_shares"] = thread_shares(trainer, config.policy.clip.period + 1 + steps);
  if (transport.rank() != 0) return 0;
  if (json)
    fmt::print("{}\n", result.dump());
  else
    print(result, trainer.backend().name());
  return 0;
}

// Replaces this process by bench/peers/compare.py, which times octet beside PyTorch. It is a script, since PyTorch is a
// library of Python. arguments: its options and networks.
int bench_peer(const std::vector<std::string>& arguments) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  std::filesystem::path root = program.parent_path();
  const auto script = [&] { return root / "bench" / "peers" / "compare.py"; };
  while (!std::filesystem::exists(script()) && root.has_relative_path()) root = root.parent_path();
  REQUIRE_USAGE(std::filesystem::exists(script()), "run octet from the build folder of its source",
                "bench/peers/compare.py, the comparison, is in no folder above ", program.string());

  std::vector<std::string> words{"python3", script().string(), "--program", program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  throw UsageError(__FILE__, __LINE__, say("python3, which runs PyTorch, does not start: ", std::strerror(errno)),
                   "install it: sudo apt-get install python3-venv");
}

struct BenchOptions {
  std::vector<std::string> what, overrides;  // what: configuration, `kernels`, or with --peer networks
  std::string filter;
  int64_t steps = 30;
  bool json = false, peer = false, deployed = false;
};

int run(const BenchOptions& options, bool steps_given) {
  const std::vector<std::string>& what = options.what;
  if (options.peer) {
    REQUIRE_USAGE(options.overrides.empty() && options.filter.empty(),
                  "run bench/peers/compare.py itself: it has more options",
                  "octet bench --peer takes only networks, --steps and --json");
    std::vector<std::string> arguments;
    if (steps_given) arguments = {"--steps", std::to_string(options.steps)};
    if (options.json) arguments.push_back("--json");
    arguments.insert(arguments.end(), what.begin(), what.end());
    return bench_peer(arguments);
  }
  REQUIRE_USAGE(what.size() == 1, "name one: octet bench configs/cifar10_resnet20_unified_int8.yaml",
                "octet bench takes one configuration, not ", what.size());
  const bool kernels = what[0] == "kernels";
  REQUIRE_USAGE(options.filter.empty() || kernels, "use octet bench kernels --filter REGEX",
                "--filter applies to octet bench kernels only");
  REQUIRE_USAGE(!options.deployed || !kernels, "name a configuration", "kernels are not a network to deploy");
  REQUIRE_USAGE(!steps_given || !kernels, "leave --steps out", "kernels are timed for a fixed time, not by steps");
  if (kernels) return bench_kernels(options.filter, options.json, options.overrides);
  return run_on_ranks({what[0], options.overrides}, [&](const Config& config, Transport& transport) {
    return (options.deployed ? bench_deployed : bench_steps)(config, transport, options.steps, options.json);
  });
}

}  // namespace

Run bench_command(CLI::App& app) {
  const auto options = std::make_shared<BenchOptions>();
  app.add_option("config", options->what,
                 "YAML file, or the word `kernels`; with --peer: networks, for example resnet20")
      ->type_name("FILE|{kernels}");
  app.add_flag("--peer", options->peer,
               "Compare with PyTorch: speed, memory and share of the roofline of four networks, in turn");
  app.add_flag("--deployed", options->deployed,
               "Time the answers of the configuration's integer network, layer by layer; the weights are random")
      ->excludes("--peer");
  add_overrides(app, options->overrides);
  const CLI::Option* steps = app.add_option("--steps", options->steps, "Number of steps, or of answers, to time")
                                 ->check(CLI::Range(1, 1000000));
  app.add_option("--filter", options->filter, "kernels: a regular expression on their names");
  app.add_flag("--json", options->json, "Print one JSON object");
  return [options, steps] { return run(*options, steps->count() > 0); };
}

}  // namespace octet
