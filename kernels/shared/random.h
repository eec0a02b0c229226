// Random bits are a function of (seed, step, layer_id, global element) alone. Threads, tiles, instruction set, device
// and number of ranks do not matter. There is no generator state to save in a checkpoint. The generator is Philox4x32-7
// of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011 (seven rounds pass BigCrush).
#pragma once
#include <cstdint>

#ifdef __CUDACC__
#define OCTET_BOTH __host__ __device__ __forceinline__
#else
// Internal linkage, so that the linker does not merge copies from files compiled for different instruction sets: it
// could keep a copy that the processor cannot run.
#define OCTET_BOTH static inline
#endif

namespace octet {

struct RngKey {
  uint64_t seed = 0;
  uint32_t step = 0;
  uint32_t layer_id = 0;    // who draws the bits, see shared/streams.h
  uint64_t first = 0;       // global index of the tensor's element 0; 0 for weights
  uint64_t per_sample = 0;  // H*W*C; 0 for weights
  uint64_t within = 0;      // first = (the rank's first sample + within) * per_sample
};

struct Random128 {
  uint32_t word[4];
};

OCTET_BOTH uint64_t wide_product(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
  uint64_t product;  // in one instruction, which the compiler does not find by itself
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
#else
  return static_cast<uint64_t>(a) * b;
#endif
}
OCTET_BOTH Random128 philox(uint64_t counter, uint32_t step, uint32_t layer_id, uint64_t seed) {
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32), c2 = step, c3 = layer_id;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 7; ++round) {
    const uint64_t p0 = wide_product(c0, 0xD2511F53u), p1 = wide_product(c2, 0xCD9E8D57u);
    const uint32_t h0 = static_cast<uint32_t>(p0 >> 32), l0 = static_cast<uint32_t>(p0);
    const uint32_t h1 = static_cast<uint32_t>(p1 >> 32), l1 = static_cast<uint32_t>(p1);
    c0 = h1 ^ c1 ^ k0;
    c1 = l1;
    c2 = h0 ^ c3 ^ k1;
    c3 = l0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// The low half of the word, rotated right by 8 h + 16 p bits.
OCTET_BOTH uint32_t shared_bits16(uint32_t word, unsigned h, unsigned p) {
  return static_cast<uint32_t>((static_cast<uint64_t>(word) << 32 | word) >> (h * 8 + p * 16)) & 0xFFFFu;
}

// How a group of neighbouring elements reads the bits of several counters. Four elements share a word. Each reads two
// cyclically neighbouring bytes of the word, and each has another upper byte. The 16 bits of one element are uniform.
// The numbers of two elements that share a byte have a correlation of 1/256; others are independent. For rounding this
// is as good as separate bits, at half the price. In the following order vectors need no shuffle: element
// 64 k + 32 h + 2 l + p of group g (k < 4, h < 2, l < 16, p < 2) reads shared_bits16(word k, h, p) of counter 16 g + l.
struct RandomGroup {
  static constexpr int elements = 256, counters = 16;
  static constexpr int word = 64, half = 32, counter = 2;  // distances of elements whose k, h or l differ by one
  static constexpr int per_counter = elements / counters, per_word = per_counter / 4;
};
static_assert(RandomGroup::counters * RandomGroup::counter == RandomGroup::half &&
              2 * RandomGroup::half == RandomGroup::word && 4 * RandomGroup::word == RandomGroup::elements);

// The bits of counter `l` of a group. group: global index of the group's first element / 256.
OCTET_BOTH Random128 random_of_group(const RngKey& key, uint64_t group, unsigned l) {
  return philox(group * RandomGroup::counters + l, key.step, key.layer_id, key.seed);
}
// The element of the group that is number j = 4 k + 2 h + p of those that read counter `l`.
OCTET_BOTH unsigned element_of_group(unsigned j, unsigned l) {
  return RandomGroup::half * (j / 2) + j % 2 + RandomGroup::counter * l;
}
// Its 16 bits, of its word.
OCTET_BOTH uint32_t bits_of_word(uint32_t word, unsigned j) { return shared_bits16(word, j / 2 % 2, j % 2); }

// The 16 bits of global element key.first + element.
OCTET_BOTH uint32_t random_bits16(const RngKey& key, uint64_t element) {
  const uint64_t e = key.first + element;
  const auto at = static_cast<unsigned>(e % RandomGroup::elements), j = at / RandomGroup::half * 2 + at % 2;
  const unsigned l = at % RandomGroup::half / RandomGroup::counter;
  const Random128 random = random_of_group(key, e / RandomGroup::elements, l);
  return bits_of_word(random.word[j / RandomGroup::per_word], j);
}

}  // namespace octet
