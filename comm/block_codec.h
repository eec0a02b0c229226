// The loops of the quantized all-reduce over the elements of one block, and the host's codec made of them. Bits do not
// depend on the instruction set. Random bits are those of random_bits16() in kernels/shared/random.h, made 256 at a
// time.
#pragma once
#include <memory>

#include "kernels/block_codec.h"
#include "kernels/shared/block_scale.h"

namespace octet {

// The largest |x|; infinity when any x is infinite or NaN (the maximum of a NaN would be lost).
float block_absmax(std::span<const float> x);

class RandomBits {
 public:
  // The 16 bits of elements [first, first + count) under the key. Valid until the next call.
  const uint16_t* of(const RngKey&, uint64_t first, size_t count);

 private:
  std::vector<uint16_t> bits_;
};

// codes[i] = stochastic round of x[i] / step.
void encode_block(std::span<const float> x, BlockScale, const uint16_t* random, int8_t* codes);
// x[i] = codes[i] * step.
void decode_block(const int8_t* codes, float step, std::span<float> x);
// sum[i] += codes[i], exactly.
void add_codes(const int8_t* codes, std::span<int32_t> sum);
// mean[i] = sum[i] / ranks: a real number in -127..127, in units of step * ranks.
void mean_of_codes(std::span<const int32_t> sum, int ranks, float* mean);

// On the caller's thread. The problem's values must outlive it.
std::unique_ptr<BlockCodec> make_host_codec(CodecProblem);

}  // namespace octet
