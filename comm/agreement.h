// What must be equal on all ranks. Ranks of different builds or weights would compute different things unnoticed.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "comm/transport.h"

namespace octet {

// Collective. hashes[i] is a 64-bit hash of parameter names[i] on this rank. If hashes differ, every rank throws the
// same Error, which names the first parameter that differs, and the ranks with each hash.
void check_agreement(Transport&, std::span<const std::string> names, std::span<const uint64_t> hashes);

// The linker's id of this program, in hex: a hash of its contents. Empty: the linker wrote none.
std::string build_id();

// Collective. build: how this rank's build is called. UsageError, the same on every rank: another rank's differs from
// rank 0's; it names that rank, its host and both builds.
void require_same_build(Transport&, const std::string& build);

}  // namespace octet
