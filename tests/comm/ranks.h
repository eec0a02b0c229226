// Runs a test on several ranks: MPI's when mpirun started more than one, else threads of this process.
#pragma once
#include <functional>

#include "comm/transport.h"

namespace octet::test {

Transport& world();

// Calls body on so many threads, each with a transport of its own. What a body throws is thrown here after all threads
// have ended.
void on_threads(int ranks, const std::function<void(Transport&)>& body);
// Calls body once on every rank, each with a transport of its own. Alone: with 2, then with 3 threads as ranks.
void on_ranks(const std::function<void(Transport&)>& body);

}  // namespace octet::test
