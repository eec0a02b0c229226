// Compares hashes of the weights of all ranks. Ranks with different weights would train different networks unnoticed.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "comm/transport.h"

namespace octet {

// Collective. hashes[i] is a 64-bit hash of parameter names[i] on this rank. If hashes differ, every rank throws the
// same Error, which names the first parameter that differs, and the ranks with each hash.
void check_agreement(Transport&, std::span<const std::string> names, std::span<const uint64_t> hashes);

}  // namespace octet
