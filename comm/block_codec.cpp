#include "comm/block_codec.h"

// Compiles a loop for several instruction sets; the loader selects one. ThreadSanitizer cannot instrument the
// selection.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define OCTET_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define OCTET_CLONES
#endif

namespace octet {
namespace {

constexpr size_t group = 256;  // elements whose random bits are generated together, see random_bits16()

OCTET_CLONES void random_group(uint64_t seed, uint32_t step, uint32_t site, uint64_t index, uint16_t* __restrict bits) {
  for (int lane = 0; lane < 16; ++lane) {
    const Random128 random = philox(index * 16 + static_cast<uint64_t>(lane), step, site, seed);
    for (int word = 0; word < 4; ++word) {
      const uint32_t first = random.word[word], second = (first >> 8) | (first << 24);
      uint16_t* const to = bits + 64 * word + 2 * lane;
      to[0] = static_cast<uint16_t>(first);
      to[1] = static_cast<uint16_t>(first >> 16);
      to[32] = static_cast<uint16_t>(second);
      to[33] = static_cast<uint16_t>(second >> 16);
    }
  }
}

OCTET_CLONES uint32_t largest_bits(const float* __restrict x, size_t count) {
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = bits_of(x[i]) & 0x7FFFFFFFu;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

OCTET_CLONES void encode(const float* __restrict x, size_t count, float inverse, const uint16_t* __restrict random,
                         int8_t* __restrict codes) {
  for (size_t i = 0; i < count; ++i) codes[i] = encode_stochastic(x[i], inverse, block_qmax, random[i]);
}

OCTET_CLONES void decode(const int8_t* __restrict codes, size_t count, float step, float* __restrict x) {
  for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>(codes[i]) * step;
}

OCTET_CLONES void add(const int8_t* __restrict codes, size_t count, int32_t* __restrict sum) {
  for (size_t i = 0; i < count; ++i) sum[i] += codes[i];
}

OCTET_CLONES void divide(const int32_t* __restrict sum, size_t count, float ranks, float* __restrict mean) {
  for (size_t i = 0; i < count; ++i) mean[i] = static_cast<float>(sum[i]) / ranks;
}

}  // namespace

float block_absmax(std::span<const float> x) { return largest_of_bits(largest_bits(x.data(), x.size())); }

const uint16_t* RandomBits::of(const RngKey& key, uint64_t first, size_t count) {
  const uint64_t begin = key.first + first, from = begin / group, to = (begin + count + group - 1) / group;
  if (bits_.size() < (to - from) * group) bits_.resize((to - from) * group);
  for (uint64_t index = from; index < to; ++index)
    random_group(key.seed, key.step, key.site, index, bits_.data() + (index - from) * group);
  return bits_.data() + begin % group;
}

void encode_block(std::span<const float> x, BlockScale scale, const uint16_t* random, int8_t* codes) {
  encode(x.data(), x.size(), scale.inverse, random, codes);
}
void decode_block(const int8_t* codes, float step, std::span<float> x) { decode(codes, x.size(), step, x.data()); }
void add_codes(const int8_t* codes, std::span<int32_t> sum) { add(codes, sum.size(), sum.data()); }
void mean_of_codes(std::span<const int32_t> sum, int ranks, float* mean) {
  divide(sum.data(), sum.size(), static_cast<float>(ranks), mean);
}

}  // namespace octet
