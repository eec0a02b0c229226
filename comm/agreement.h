// Checks that all ranks hold the same weights. Different weights cause no other error, so ranks compare hashes.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "comm/transport.h"

namespace octet {

// Collective. hashes[i]: 64-bit hash of the values of parameter names[i] on this rank. Error, the same on every rank:
// the hashes differ; the message names the first such parameter and the hash of each rank.
void check_agreement(Transport&, std::span<const std::string> names, std::span<const uint64_t> hashes);

}  // namespace octet
