// Hashes by which data sets are compared.
#pragma once
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>

namespace octet {

// XXH3 of the bytes of the values, seeded with `before`: the fingerprint of the parts before them.
uint64_t fingerprint(uint64_t before, const std::ranges::contiguous_range auto& values) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), before);
}

}  // namespace octet
