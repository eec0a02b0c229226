// The transports behind make_transport().
#pragma once
#include "comm/transport.h"

namespace octet {

std::unique_ptr<Transport> make_self_transport();
// Starts the MPI library, which may happen once in a process; more communicators come from duplicate(). The library
// ends with the last of them.
std::unique_ptr<Transport> make_mpi_transport(int* argc, char*** argv);

}  // namespace octet
