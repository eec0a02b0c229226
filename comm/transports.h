// The transports behind make_transport().
#pragma once
#include "comm/transport.h"

namespace octet {

std::unique_ptr<Transport> make_self_transport();
// Starts the MPI library. This is allowed once per process; duplicate() creates further communicators. The library is
// finalized with the last one.
std::unique_ptr<Transport> make_mpi_transport(int* argc, char*** argv);

}  // namespace octet
