#include "comm/launcher.h"

#include <cstdlib>
#include <string_view>

namespace octet {
namespace {

int number(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? 0 : std::atoi(value);
}

}  // namespace

// The first variable that is set counts. In a Slurm job with mpirun, Slurm's variable describes the daemons of mpirun.
Launched launched() {
  struct Variables {
    const char *ranks, *rank;
  };
  const char* const directory = std::getenv("PMIX_SERVER_TMPDIR");  // Open MPI's mpirun, or Slurm's PMIx
  const std::string host_directory = directory == nullptr ? "" : directory;
  for (const auto& [ranks, rank] :
       {Variables{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, Variables{"PMI_SIZE", "PMI_RANK"}})
    if (std::getenv(ranks) != nullptr) return {ranks, number(rank), number(ranks), host_directory};
  // Slurm sets it in every job step, also in an interactive shell of one task, which does not use MPI.
  if (const char* const ranks = "SLURM_STEP_NUM_TASKS"; number(ranks) > 1)
    return {ranks, number("SLURM_PROCID"), number(ranks), host_directory};
  return {};
}

}  // namespace octet
