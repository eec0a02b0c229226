// The loops of the quantized all-reduce over the elements of one block, and the codec of the host, which consists of
// these loops. Results have the same bits on every instruction set.
#pragma once
#include <memory>

#include "kernels/block_codec.h"
#include "kernels/shared/block_scale.h"

namespace octet {

// The largest |x| of count values; infinity when one is infinite or NaN.
float block_absmax(const float* x, size_t count);

// Computes the bits of random_bits16() in kernels/shared/random.h, for 256 elements at a time.
class RandomBits {
 public:
  // Returns 16 bits for each of the elements [first, first + count). They are valid until the next call.
  const uint16_t* of(const RngKey&, uint64_t first, size_t count);

 private:
  std::vector<uint16_t> bits_;
};

// codes[i] = stochastic rounding of x[i] / step.
void encode_block(const float* x, size_t count, BlockScale, const uint16_t* random, int8_t* codes);
// x[i] = codes[i] * step.
void decode_block(const int8_t* codes, size_t count, float step, float* x);

// The codec works on the caller's thread. The values of the problem must outlive the codec.
std::unique_ptr<BlockCodec> make_host_codec(CodecProblem);

}  // namespace octet
