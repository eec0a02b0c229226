// A sequence of random numbers that is a function of (seed, step, layer_id, index): the same for any thread, rank or
// order.
#pragma once
#include "kernels/shared/random.h"
#include "kernels/shared/streams.h"

namespace octet {

// Streams of the data pipeline, all of streams::data.
enum class DrawStream : uint32_t {
  order = streams::data.first,
  augment,
  train_picture,
  test_picture,
  randaugment,
  color_jitter,
  erasing,
  mixup,
  balance,
  cutmix,
  mosaic
};
static_assert(static_cast<uint32_t>(DrawStream::mosaic) <= streams::data.last);

class Draws {
 public:
  // index: the sample, below 2^40. Each index has 2^26 numbers.
  Draws(uint64_t seed, int64_t step, DrawStream stream, int64_t index)
      : seed_(seed),
        step_(static_cast<uint32_t>(step)),
        stream_(static_cast<uint32_t>(stream)),
        block_(static_cast<uint64_t>(index) << 24) {}

  uint32_t bits() {
    if (used_ == 4) {
      words_ = philox(block_++, step_, stream_, seed_);
      used_ = 0;
    }
    return words_.word[used_++];
  }
  // 0 .. bound - 1. The bias, bound / 2^32, is too small to be seen in any data set.
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>((static_cast<uint64_t>(bits()) * bound) >> 32); }
  // [low, high)
  float uniform(float low, float high) { return low + (high - low) * (static_cast<float>(bits() >> 8) * 0x1p-24f); }
  bool chance(float probability) { return uniform(0, 1) < probability; }

 private:
  uint64_t seed_;
  uint32_t step_, stream_;
  uint64_t block_;
  Random128 words_{};
  int used_ = 4;
};

}  // namespace octet
