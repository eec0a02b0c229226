// The loops of the quantized all-reduce over the elements of one block, and the host's codec made of them. Bits do not
// depend on the instruction set.
#pragma once
#include <memory>

#include "kernels/block_codec.h"
#include "kernels/shared/block_scale.h"

namespace octet {

// The largest |x| of count values; infinity when one is infinite or NaN.
float block_absmax(const float* x, size_t count);

// The bits of random_bits16() in kernels/shared/random.h, made 256 at a time.
class RandomBits {
 public:
  // The 16 bits of each of the elements [first, first + count) under the key. Valid until the next call.
  const uint16_t* of(const RngKey&, uint64_t first, size_t count);

 private:
  std::vector<uint16_t> bits_;
};

// codes[i] = stochastic rounding of x[i] / step.
void encode_block(const float* x, size_t count, BlockScale, const uint16_t* random, int8_t* codes);
// x[i] = codes[i] * step.
void decode_block(const int8_t* codes, size_t count, float step, float* x);

// Works on the caller's thread. The values of the problem must outlive it.
std::unique_ptr<BlockCodec> make_host_codec(CodecProblem);

}  // namespace octet
