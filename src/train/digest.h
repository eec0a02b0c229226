// Digests of weights: SHA-256 identifies a result, XXH3 compares ranks.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "src/train/safetensors.h"

namespace octet {

// Hexadecimal SHA-256 over each tensor's name, shape and little-endian bytes, in order.
std::string weights_sha256(std::span<const NamedTensor> tensors);
// The same, with the metadata included. Two checkpoints have the same digest only if their whole contents are equal.
std::string content_sha256(std::span<const NamedTensor> tensors, const std::map<std::string, std::string>& metadata);
// 64-bit XXH3 of a parameter's bytes.
uint64_t xxh3(std::span<const float> values);

}  // namespace octet
