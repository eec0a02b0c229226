// Runs a test on several ranks: MPI ranks if mpirun started more than one, else threads of this process.
#pragma once
#include <functional>

#include "comm/transport.h"

namespace octet::test {

Transport& world();

// Calls body on `ranks` threads, each with a transport of its own. Throws what a body has thrown, after all threads
// have ended.
void on_threads(int ranks, const std::function<void(Transport&)>& body);
// Calls body once on every rank, each with a transport of its own. Without mpirun: with 2, then with 3 threads as
// ranks.
void on_ranks(const std::function<void(Transport&)>& body);

}  // namespace octet::test
