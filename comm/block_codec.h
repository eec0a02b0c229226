// The loops of the quantized all-reduce over one block, and the host codec that uses them. Results do not depend on the
// instruction set. Random bits are those of random_bits16() in kernels/shared/random.h, generated 256 at a time.
#pragma once
#include <memory>

#include "kernels/block_codec.h"
#include "kernels/shared/block_scale.h"

namespace octet {

// The largest |x|, or infinity if any x is infinite or NaN. A plain maximum would lose a NaN.
float block_absmax(std::span<const float> x);

class RandomBits {
 public:
  // Returns 16 random bits for each element of [first, first + count). Valid until the next call.
  const uint16_t* of(const RngKey&, uint64_t first, size_t count);

 private:
  std::vector<uint16_t> bits_;
};

// codes[i] = x[i] / step, rounded stochastically with random[i].
void encode_block(std::span<const float> x, BlockScale, const uint16_t* random, int8_t* codes);
// x[i] = codes[i] * step.
void decode_block(const int8_t* codes, float step, std::span<float> x);
// sum[i] += codes[i], exactly.
void add_codes(const int8_t* codes, std::span<int32_t> sum);
// mean[i] = sum[i] / ranks: not an integer, in [-127, 127], in units of step * ranks.
void mean_of_codes(std::span<const int32_t> sum, int ranks, float* mean);

// The codec runs on the caller's thread. The problem's values must outlive it.
std::unique_ptr<BlockCodec> make_host_codec(CodecProblem);

}  // namespace octet
