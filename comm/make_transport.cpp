#include <cstdio>
#include <cstdlib>
#include <string>

#include "comm/transports.h"

namespace octet {
namespace {

struct Launcher {
  const char* variable = nullptr;
  int ranks = 1;
};

// The first variable that is set counts. Under mpirun in a Slurm job, Slurm's variable describes mpirun's daemons.
Launcher launcher() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* value = std::getenv(variable)) return {variable, std::atoi(value)};
  // Slurm sets it in every job step, also in an interactive shell of one task, which does not use MPI.
  const char* value = std::getenv("SLURM_STEP_NUM_TASKS");
  if (value != nullptr && std::atoi(value) > 1) return {"SLURM_STEP_NUM_TASKS", std::atoi(value)};
  return {};
}

}  // namespace

std::unique_ptr<Transport> make_transport(int* argc, char*** argv) {
  const Launcher from = launcher();
  if (from.variable == nullptr) return make_self_transport();
  auto transport = make_mpi_transport(argc, argv);
  if (transport->size() != from.ranks) {
    std::fprintf(stderr,
                 "comm: the launcher started %d ranks (%s), but the MPI library sees %d\n"
                 "  fix: start with the mpirun (or srun --mpi=...) of the MPI library that octet is linked with\n",
                 from.ranks, from.variable, transport->size());
    std::fflush(stderr);
    transport->abort(78);
  }
  return transport;
}

}  // namespace octet
