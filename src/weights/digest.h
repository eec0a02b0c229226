// Digests of weights: SHA-256 identifies a result, XXH3 compares ranks.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "src/weights/safetensors.h"

namespace octet {

// Hexadecimal SHA-256 over each tensor's name, shape and little-endian bytes, in order.
std::string weights_sha256(std::span<const NamedTensor> tensors);
// The same, with the metadata included. Two files have the same digest only if their whole contents are equal.
std::string content_sha256(std::span<const NamedTensor> tensors, const std::map<std::string, std::string>& metadata);
// Adds the entry `sha256`: content_sha256() of all tensors and of the other metadata.
void add_digest(std::span<const NamedTensor> tensors, std::map<std::string, std::string>& metadata);
bool has_digest(const SafetensorsFile&);
// UsageError: the file has a digest, and it is not that of the contents.
void require_unchanged(const SafetensorsFile&, const std::string& path);
// 64-bit XXH3 of a parameter's bytes.
uint64_t xxh3(std::span<const float> values);

}  // namespace octet
