#include "comm/launcher.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "comm/transport.h"
#include "kernels/base/exit_codes.h"

namespace octet {
namespace {

int number(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? 0 : std::atoi(value);
}

std::string text(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

}  // namespace

// The first variable that is set counts. In a Slurm job with mpirun, Slurm's variable describes the daemons of mpirun.
Launched launched() {
  struct Variables {
    const char *ranks, *rank;
  };
  const std::string host_directory = text("PMIX_SERVER_TMPDIR");  // Open MPI's mpirun, or Slurm's PMIx
  const std::string hosts = text("OCTET_HOSTS");
  for (const auto& [ranks, rank] :
       {Variables{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, Variables{"PMI_SIZE", "PMI_RANK"}})
    if (std::getenv(ranks) != nullptr) return {ranks, number(rank), number(ranks), host_directory, hosts};
  // Slurm sets it in every job step, also in an interactive shell of one task, which does not use MPI.
  if (const char* const ranks = "SLURM_STEP_NUM_TASKS"; number(ranks) > 1)
    return {ranks, number("SLURM_PROCID"), number(ranks), host_directory, hosts};
  return {};
}

std::unique_ptr<Transport> make_transport(int* argc, char*** argv) {
  const Launched from = launched();
  if (from.variable == nullptr) return make_self_transport();
  auto transport = make_mpi_transport(argc, argv);
  if (transport->size() != from.ranks) {
    std::fprintf(stderr,
                 "comm: the launcher started %d ranks (%s), but the MPI library sees %d\n"
                 "  fix: start with the mpirun (or srun --mpi=...) of the MPI library that octet is linked with\n",
                 from.ranks, from.variable, transport->size());
    std::fflush(stderr);
    transport->abort(exit_mismatch);
  }
  return transport;
}

}  // namespace octet
