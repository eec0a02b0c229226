// What tells two data sets apart.
#pragma once
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>

namespace octet {

// XXH3 of `before` and the values' bytes: of several parts by chaining.
uint64_t fingerprint(uint64_t before, const std::ranges::contiguous_range auto& values) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), before);
}

}  // namespace octet
