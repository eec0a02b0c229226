// Compares the builds of all ranks. Ranks of different builds could compute different things unnoticed.
#pragma once
#include <string>

#include "comm/transport.h"

namespace octet {

// The linker's id of this program, in hex: a hash of its contents. Empty: the linker wrote none.
std::string build_id();

// Collective. build: how this rank's build is called. UsageError, the same on every rank: another rank's differs from
// rank 0's; it names that rank, its host and both builds.
void require_same_build(Transport&, const std::string& build);

}  // namespace octet
