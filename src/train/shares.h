// How the ranks of a host share its cores and its memory.
#pragma once
#include <array>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "src/train/cores.h"

namespace octet {

// What one rank may use. Ranks exchange it as bytes.
struct Allowance {
  std::array<char, 72> host{};
  CoreSet allowed;   // by the launcher or the shell
  CoreSet possible;  // what they could allow: the cores of the host, or of the container
  double cpus = std::numeric_limits<double>::infinity();  // and `group`, as in HostLimits
  uint64_t group = 0;
  int64_t memory = 0;       // bytes that can be taken; all ranks of a host see the same ones
  int set = 0;              // threads, by the recipe; 0: to be chosen
  int granted = 0;          // by Slurm to this rank, 0: unknown
  int granted_on_host = 0;  // by Slurm to the ranks of the host, 0: unknown
  bool under_slurm = false, bound_by_mpirun = false;

  std::string host_name() const { return host.data(); }
};
// Of this process. set: backend.threads.
Allowance own_allowance(int set);

// Keeps the threads of OpenMP's loops where JobShares::places() says. The calling thread, and threads that it starts
// later, may use all of these cores.
void stay_at(const std::vector<CoreSet>& places);

// What all ranks of a job may use. Ranks ask before they take any of it.
class JobShares {
 public:
  // Collective. UsageError: a limit leaves no room for this rank's threads.
  JobShares(Transport&, int set);
  // As if all ranks had told this one, which has number `rank`, theirs.
  JobShares(std::vector<Allowance> ranks, int rank);

  // Of this rank. Each of its cores counts 1 / (ranks of the host that are allowed on it), and no more threads run than
  // the control group's processor time, divided by its ranks, keeps busy. At least 1.
  int threads() const { return threads_; }
  // By thread of this rank: the cores of the node of memory where it should stay, which has the memory that it touches
  // first. nodes: see memory_nodes(). Ranks that may use all cores divide the nodes among them, and a rank's threads
  // divide its nodes. Empty: Linux decides, since there is one node, the launcher has divided the cores, or they cannot
  // be divided evenly.
  std::vector<CoreSet> places(const std::vector<CoreSet>& nodes) const;
  // Bytes that this rank can take, as a part of the host's or the control group's.
  int64_t memory() const;
  // Ranks, threads and cores of each host: "n1, n2: 2 ranks of 4 threads on 8 cores".
  std::string text() const;
  // Hosts where ranks share cores while others idle, or have fewer threads than the launcher could give them.
  std::vector<std::string> warnings() const;

 private:
  struct Host;
  std::vector<Host> hosts() const;

  std::vector<Allowance> ranks_;
  int rank_, threads_ = 1;
};

}  // namespace octet
