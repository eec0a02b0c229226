#include <cstdio>

#include "comm/launcher.h"
#include "comm/transport.h"
#include "kernels/base/exit_codes.h"

namespace octet {
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
