// `octet plan --threads N`: how the threads of a CPU would share a training step out.
//
// PhaseWork is cut for N threads, and one thread does it. A loop of p equal pieces then takes N threads the time of
// ceil(p / N) pieces. What is done outside of loops takes as long as now. Caches, memory and clocks are taken to serve
// all threads as they serve one.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "kernels/base/terminal.h"
#include "kernels/base/text.h"
#include "src/commands/command.h"
#include "src/data/augment/canvases.h"
#include "src/data/loader.h"
#include "src/quant/policy.h"
#include "src/train/host_limits.h"
#include "src/train/shares.h"
#include "src/train/trainer.h"

namespace octet {
namespace {

constexpr int64_t warm_up = 2, measured = 6;  // steps
constexpr double wake = 6e-6;                 // seconds from a loop to the next where threads wait for each other

// Of one phase of one node.
struct PhaseWork {
  double busy = 0, planned = 0;  // seconds of a step in loops: of one thread, and of all
  double alone = 0;              // seconds outside of loops, where one thread works by itself
  int64_t pieces = 0;            // of the loop that takes longest
  double longest = 0;
  double time() const { return planned + alone; }
};
using StepWork = std::map<std::string, PhaseWork>;  // by "node phase"

double sum(const StepWork& step, double PhaseWork::*what) {
  double total = 0;
  for (const auto& [name, work] : step) total += work.*what;
  return total;
}

Datasets random_images(Config config) {
  const int64_t side = image_side(config.data);
  config.data = {};
  config.data.name = "synthetic", config.data.image_size = side;
  return open_datasets(config);
}

// Of the step that was logged last.
StepWork work_of(const LoopLog& log, int threads) {
  StepWork result;
  // "node phase", or of no node " phase". What is before the first phase, and the loader, are not the step's.
  const auto counts = [](const std::string& name) {
    return name.size() > 1 && name != std::string(" ") + name_of(Phase::data_wait);
  };
  const auto work_at = [&](const std::string& name) -> PhaseWork& {
    return result[name.starts_with(' ') ? name.substr(1) : name];
  };
  for (const auto& [name, seconds] : log.seconds())
    if (counts(name)) work_at(name).alone = seconds;
  for (const auto& [key, loop] : log.loops()) {
    const auto& [name, pieces] = key;
    if (!counts(name)) continue;
    PhaseWork& work = work_at(name);
    work.busy += loop.busy, work.alone -= loop.busy;
    work.planned += loop.busy * double((pieces + threads - 1) / threads) / double(std::max<int64_t>(pieces, 1));
    if (threads > 1) work.planned += wake * double(loop.calls);
    if (loop.busy > work.longest) work.longest = loop.busy, work.pieces = pieces;
  }
  return result;
}

// Steps whose work is cut for so many threads: each phase as in the step where it took least, so that neither a busy
// machine nor searches for clips count.
StepWork measure(Config config, Transport& transport, int threads) {
  config.backend.threads = threads;
  const bool boxes = task_of(config).objects;
  Trainer trainer(config, transport, true, nullptr,
                  [&] { return boxes ? open_datasets(config) : random_images(config); });
  trainer.start(0);
  trainer.training_step().time_phases(true);
  LoopLog& log = *trainer.backend().loops();
  trainer.training_step().times().loops = &log;
  StepWork least;
  for (int64_t step = 0; step < warm_up + measured; ++step) {
    log.start(LoopLog::Mode::plans);
    // After the first ones as in the middle of a training, see bench.cpp.
    trainer.step(step < warm_up ? step : config.policy.clip.period + step, false);
    log.name("");
    if (step < warm_up) continue;
    for (const auto& [name, work] : work_of(log, threads)) {
      PhaseWork& known = least.try_emplace(name, work).first->second;
      if (work.busy + work.alone < known.busy + known.alone) known = work;
    }
  }
  return least;
}

void print_layers(const StepWork& one, const StepWork& all, int threads) {
  struct Row {
    std::string name;
    PhaseWork one, all;
    double lost(int threads) const { return all.time() - one.time() / threads; }
  };
  std::vector<Row> rows;
  for (const auto& [name, work] : all) rows.push_back({name, one.contains(name) ? one.at(name) : work, work});
  std::ranges::sort(rows, std::greater{}, [&](const Row& row) { return row.lost(threads); });
  const std::string of_all = threads == 1 ? "1 thread" : fmt::format("{} threads", threads);
  const TableColumn head[] = {{"milliseconds; the greatest loss first"},
                              {"pieces", true},
                              {"1 thread", true},
                              {of_all, true},
                              {"by itself", true},
                              {"speed-up", true},
                              {"lost", true}};
  std::vector<std::vector<std::string>> cells;
  for (const Row& row : rows) {
    cells.push_back({row.name, fmt::format("{}", row.all.pieces)});
    for (const double seconds : {row.one.time(), row.all.time(), row.all.alone})
      cells.back().push_back(fmt::format("{:.3f}", 1e3 * seconds));
    cells.back().push_back(fmt::format("{:.1f}", row.one.time() / row.all.time()));
    cells.back().push_back(fmt::format("{:.3f}", 1e3 * row.lost(threads)));
  }
  print_folded(say("\n", table_text(head, cells, terminal_columns(STDOUT_FILENO))));
}

}  // namespace

int plan_threads(const Config& config, Transport& transport, int threads) {
  REQUIRE_USAGE(transport.size() == 1, "leave mpirun out", "plan --threads plans one rank, not ", transport.size());
  REQUIRE_USAGE(config.backend.device == "cpu", "set backend.device: cpu", config.file,
                ": plan --threads is about threads of a CPU");
  REQUIRE_USAGE(make_policy(config)->computes_in_own_loops(), "set policy.name: unified_int8", config.file, ": policy ",
                config.policy.name, " computes partly in loops of a library or of its own, which cannot be planned");
  spdlog::set_level(spdlog::level::err);  // no word of threads that are more than cores
  const int here = JobShares(transport, 0).threads();
  const StepWork one = measure(config, transport, 1), all = threads == 1 ? one : measure(config, transport, threads);
  const double of_one = sum(one, &PhaseWork::busy) + sum(one, &PhaseWork::alone);
  const double by_itself = sum(all, &PhaseWork::alone), of_all = sum(all, &PhaseWork::planned) + by_itself;
  print_folded(fmt::format(
      "{}{}: a step of {} images takes {:.1f} ms,\n{:.1f} times as fast as one thread ({:.1f} ms, measured); in {:.2f} "
      "ms "
      "of it one thread works by itself.\nPieces are what threads can share out; a loop is taken to cost them {:.0f} "
      "us "
      "more. Memory and clocks are taken\nto serve every thread as they serve one.\n",
      threads == 1 ? "1 thread" : fmt::format("{} threads", threads),
      threads > here ? fmt::format(", where this process may use {}", here) : "", config.data.batch, 1e3 * of_all,
      of_one / of_all, 1e3 * of_one, 1e3 * by_itself, 1e6 * wake));
  print_layers(one, all, threads);
  return 0;
}

}  // namespace octet
