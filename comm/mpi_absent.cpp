// A build without MPI has one rank.
#include "comm/transport.h"

namespace octet {

std::unique_ptr<Transport> make_mpi_transport(int*, char***) {
  REQUIRE_USAGE(false, "start it without mpirun and srun, or use a build with MPI",
                "this build of octet has no MPI: it runs on one rank");
}

std::string mpi_version() { return "none"; }

}  // namespace octet
