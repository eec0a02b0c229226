// The formula behind the golden files, as tests/golden/make_golden.py describes it.
#pragma once
#include <cmath>
#include <cstdint>

namespace octet::golden {

// In [-0.5, 0.5), exact in float. i: index in PyTorch's order (OIHW, NCHW). salt: position of the parameter,
// or image_salt.
inline float value(uint32_t i, uint32_t salt) {
  uint32_t x = i + salt * 0x9E3779B9u + 12345u;
  x ^= x >> 16;
  x *= 0x85EBCA6Bu;
  x ^= x >> 13;
  x *= 0xC2B2AE35u;
  x ^= x >> 16;
  return static_cast<float>(x >> 8) / 16777216.0f - 0.5f;
}

// Initial values. fan_in: input channels / groups * kernel height * kernel width.
inline float weight(uint32_t i, uint32_t salt, int64_t fan_in) {
  return static_cast<float>(2 * std::sqrt(6.0 / static_cast<double>(fan_in))) * value(i, salt);
}
inline float gamma(uint32_t i, uint32_t salt) { return 1.0f + value(i, salt) / 4.0f; }
inline float bias(uint32_t i, uint32_t salt) { return value(i, salt) / 4.0f; }
inline float pixel(uint32_t i, uint32_t image_salt) { return 4.0f * value(i, image_salt); }
inline int32_t label(int64_t sample, int64_t classes) { return static_cast<int32_t>((7 * sample + 3) % classes); }

// The k-th sampled element of a tensor with n elements; k < min(n, "samples").
inline int64_t sample_index(int64_t k, int64_t n) { return k * 7919 % n; }

}  // namespace octet::golden
