#include "src/train/shares.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <latch>
#include <memory>
#include <system_error>
#include <thread>

#include "kernels/base/error.h"
#include "kernels/base/host_name.h"
#include "src/train/host_limits.h"

namespace octet {
namespace {

// Linux allows a thread that asks for every core those that the host, or the container, has.
CoreSet possible_cores(const CoreSet& allowed) {
  if (!allow(~CoreSet())) return allowed;
  const CoreSet possible = allowed_now();
  allow(allowed);
  return possible | allowed;
}

int number(const char* variable) {
  const char* const text = std::getenv(variable);
  return text ? std::atoi(text) : 0;
}

constexpr double rounding = 1e-6;  // of a sum of parts

// That a control group's time keeps busy. Of a part of a core's time a thread makes more than none.
int most_threads(double cpus) { return int(std::min(std::ceil(cpus - rounding), double(CoreSet().size()))); }

std::string count_of(int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// Starts threads that wait for each other, up to this many with the calling one. Returns their number and, if they are
// fewer, the reason.
std::pair<int, std::string> try_threads(int wanted) {
  std::latch tried(1);
  std::vector<std::jthread> others;
  others.reserve(size_t(wanted));
  std::string reason;
  try {
    while (int(others.size()) + 1 < wanted)
      others.emplace_back([&] {
        const std::vector<char> own(64);  // malloc reserves memory for each thread, which later ones take over
        tried.wait();
      });
  } catch (const std::system_error& error) {
    reason = error.what();
  }
  tried.count_down();
  return {int(others.size()) + 1, reason};
}

// Where there is no room for its threads, libgomp ends the process with a line that says neither where nor why.
void require_room_for(int threads) {
  try_threads(threads);
  const auto [started, reason] = try_threads(threads);  // beside the memory that malloc has reserved for the first ones
  REQUIRE_USAGE(reason.empty(),
                "choose fewer with backend.threads, or raise the limit: of threads (ulimit -u, pids.max of the control "
                "group) or of memory (ulimit -v)",
                "backend.threads: only ", started, " of ", count_of(threads, "thread"), " could be started: ", reason);
}

}  // namespace

// The ranks of a host, and the threads of each.
struct JobShares::Host {
  std::string name;
  std::vector<const Allowance*> ranks = {};
  std::vector<int> threads = {};

  CoreSet allowed() const { return any(&Allowance::allowed); }
  CoreSet possible() const { return any(&Allowance::possible); }
  CoreSet any(CoreSet Allowance::*of) const {
    CoreSet cores;
    for (const Allowance* const rank : ranks) cores |= rank->*of;
    return cores;
  }
  bool shares_cores() const {
    CoreSet seen, twice;
    for (const Allowance* const rank : ranks) twice |= seen & rank->allowed, seen |= rank->allowed;
    return twice.any();
  }
  void choose_threads();
  int attainable(const Allowance&) const;
  std::string text() const;
  std::string warning() const;
};

Allowance own_allowance(int set) {
  Allowance own;
  const std::string host = host_name();
  std::copy_n(host.begin(), std::min(host.size(), own.host.size() - 1), own.host.begin());
  own.allowed = allowed_now();
  own.possible = possible_cores(own.allowed);
  const HostLimits limits = host_limits();
  own.cpus = limits.cpus, own.group = limits.cpu_group;
  // A host may swap, and other processes may leave it more than now. A control group ends what goes beyond its limit.
  own.memory = limits.memory_group ? limits.memory_left : limits.memory;
  own.set = set;
  own.under_slurm = number("SLURM_JOB_ID") > 0;
  if (own.under_slurm) own.granted = number("SLURM_CPUS_PER_TASK"), own.granted_on_host = number("SLURM_CPUS_ON_NODE");
  own.bound_by_mpirun = number("OMPI_MCA_orte_bound_at_launch") > 0;
  return own;
}

JobShares::JobShares(Transport& transport, int set)
    : JobShares(
          [&] {
            static_assert(std::is_trivially_copyable_v<Allowance>);
            const Allowance own = own_allowance(set);
            std::vector<Allowance> all(size_t(transport.size()));
            transport.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
            return all;
          }(),
          transport.rank()) {
  require_room_for(threads_);
}

JobShares::JobShares(std::vector<Allowance> ranks, int rank) : ranks_(std::move(ranks)), rank_(rank) {
  for (const Host& host : hosts())
    for (size_t i = 0; i < host.ranks.size(); ++i)
      if (host.ranks[i] == &ranks_[size_t(rank)]) threads_ = host.threads[i];
}

void JobShares::Host::choose_threads() {
  std::vector<int> on_core(CoreSet().size());  // ranks that are allowed there
  for (const Allowance* const rank : ranks)
    for (size_t core = 0; core < on_core.size(); ++core) on_core[core] += rank->allowed[core] ? 1 : 0;
  for (const Allowance* const rank : ranks) {
    double cores = 0;
    for (size_t core = 0; core < on_core.size(); ++core)
      if (rank->allowed[core]) cores += 1.0 / on_core[core];
    const auto in_group = std::ranges::count(ranks, rank->group, &Allowance::group);
    const int chosen = std::max(1, std::min(int(cores + rounding), most_threads(rank->cpus / double(in_group))));
    threads.push_back(rank->set > 0 ? rank->set : chosen);
  }
}

std::vector<CoreSet> JobShares::places(const std::vector<CoreSet>& nodes) const {
  const Allowance& own = ranks_[size_t(rank_)];
  std::vector<CoreSet> of_host;
  for (const CoreSet& node : nodes)
    if ((node & own.allowed).any()) of_host.push_back(node & own.allowed);
  size_t ranks = 0, place = 0;
  for (const Allowance& rank : ranks_) {
    if (rank.host != own.host) continue;
    if (rank.allowed != own.allowed) return {};
    if (&rank == &own) place = ranks;
    ++ranks;
  }
  const size_t count = of_host.size();
  if (count < 2 || std::max(ranks, count) % std::min(ranks, count) != 0) return {};
  const auto first = of_host.begin() + ptrdiff_t(place * count / ranks);
  const std::vector<CoreSet> mine(first, first + ptrdiff_t(std::max<size_t>(1, count / ranks)));
  CoreSet all;
  for (const CoreSet& node : mine) all |= node;
  const size_t on_node = std::max<size_t>(1, ranks / count), threads = size_t(threads_);
  if (threads != all.count() / on_node) return {};
  std::vector<CoreSet> places;
  for (size_t thread = 0; thread < threads; ++thread) places.push_back(mine[thread * mine.size() / threads]);
  return places;
}

void stay_at(const std::vector<CoreSet>& places) {
  CoreSet all;
  for (const CoreSet& place : places) all |= place;
#pragma omp parallel num_threads(int(std::max <size_t>(1, places.size())))
  if (!places.empty()) allow(omp_get_thread_num() == 0 ? all : places[size_t(omp_get_thread_num())]);
}

int64_t JobShares::memory() const {
  const Allowance& own = ranks_[size_t(rank_)];
  return own.memory / std::ranges::count(ranks_, own.host, &Allowance::host);
}

std::vector<JobShares::Host> JobShares::hosts() const {
  std::vector<Host> hosts;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const std::string name = ranks_[rank].host_name();
    auto host = std::ranges::find(hosts, name, &Host::name);
    if (host == hosts.end()) host = hosts.insert(hosts.end(), Host{.name = name});
    host->ranks.push_back(&ranks_[rank]);
  }
  for (Host& host : hosts) host.choose_threads();
  return hosts;
}

std::string JobShares::Host::text() const {
  const auto [least, most] = std::ranges::minmax(threads);
  const size_t cores = allowed().count(), all = possible().count();
  std::string text =
      fmt::format("{} of {} on {}", count_of(int64_t(ranks.size()), "rank"),
                  least == most ? count_of(least, "thread") : fmt::format("{} to {} threads", least, most),
                  cores == all ? count_of(int64_t(cores), "core") : fmt::format("{} of {} cores", cores, all));
  const double cpus = std::ranges::min(ranks, {}, &Allowance::cpus)->cpus;
  if (cpus < double(cores)) text += fmt::format(", of which a control group leaves the time of {:.4g}", cpus);
  return text;
}

std::string JobShares::text() const {
  std::vector<std::pair<std::string, std::vector<std::string>>> kinds;  // with the names of the hosts
  for (const Host& host : hosts()) {
    auto kind = std::ranges::find(kinds, host.text(), [](const auto& of) { return of.first; });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {host.text(), {}});
    kind->second.push_back(host.name);
  }
  std::vector<std::string> texts;
  for (const auto& [kind, names] : kinds) texts.push_back(joined(names, ", ") + ": " + kind);
  return joined(texts, "; ");
}

// What a rank could have: by Slurm's word, or where mpirun has bound it, its part of the host.
int JobShares::Host::attainable(const Allowance& rank) const {
  const int count = int(ranks.size());
  const int of_host =
      rank.granted_on_host == 0 && rank.bound_by_mpirun ? int(possible().count()) : rank.granted_on_host;
  return std::min(rank.granted > 0 ? rank.granted : of_host / count, most_threads(rank.cpus / count));
}

std::string JobShares::Host::warning() const {
  const CoreSet idle = possible() & ~allowed();
  if (idle.any() && shares_cores())
    return fmt::format(
        "{}: its ranks share cores {}, while cores {} idle; fix: {}", name, list_of(allowed()), list_of(idle),
        ranks.front()->bound_by_mpirun ? "mpirun --bind-to none"
        : ranks.front()->under_slurm   ? "give each rank cores of its own: srun --cpus-per-task=N"
                                       : "mpirun --bind-to none, without taskset and without mpirun's --cpu-set");
  for (size_t i = 0; i < ranks.size(); ++i) {
    const Allowance& rank = *ranks[i];
    const int could = attainable(rank);
    if (rank.set > int(rank.allowed.count()))
      return fmt::format("{}: {} of a rank take turns on cores {}; fix: lower backend.threads, or leave it out", name,
                         count_of(rank.set, "thread"), list_of(rank.allowed));
    if (rank.set > 0 || threads[i] >= could) continue;
    const std::string cores =
        fmt::format("{} of a rank on cores {}", count_of(threads[i], "thread"), list_of(rank.allowed));
    return rank.bound_by_mpirun
               ? fmt::format("{}: mpirun leaves room for {}, and could for {}; fix: mpirun --bind-to none", name, cores,
                             could)
               : fmt::format(
                     "{}: there is room for {}, but Slurm has granted it {}; fix: srun --cpus-per-task={}, and "
                     "unset SLURM_CPU_BIND in a job that was submitted from within another",
                     name, cores, could, could);
  }
  return {};
}

std::vector<std::string> JobShares::warnings() const {
  std::vector<std::string> all;
  for (const Host& host : hosts())
    if (const std::string warning = host.warning(); !warning.empty()) all.push_back(warning);
  return all;
}

}  // namespace octet
