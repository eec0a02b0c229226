// Ranks that hold different weights train different networks without any sign of it; comparing hashes finds it at once.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "comm/transport.h"

namespace octet {

// Collective. hashes[i] is a 64-bit hash of what parameter names[i] holds on this rank. Throws the same Error on every
// rank when they differ: it names the first differing parameter and which ranks hold what.
void check_agreement(Transport&, std::span<const std::string> names, std::span<const uint64_t> hashes);

}  // namespace octet
