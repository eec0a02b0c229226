// What happens to the values that a pass computes: they are measured, counted, encoded. For quantize.cu and affine.cu,
// whose subnormal numbers are zero.
#pragma once
#include <cmath>

#include "kernels/cuda/clip_range.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/kernel_arguments.h"
#include "kernels/cuda/values.h"
#include "kernels/cuda/walk.h"

namespace octet::cuda {
namespace {

// Where and how values are encoded.
struct Codes {
  DType type = DType::f32;  // f32: values are written as they are, and nothing below but `out` matters
  bool stochastic = false;
  int lowest = -127, qmax = 127;
  const ClipRange* range = nullptr;
  void* out = nullptr;
  uint64_t* saturated = nullptr;
  uint32_t* largest = nullptr;  // bits of max |value|
};

constexpr int threads = walk_threads;

__device__ __forceinline__ float magnitude_of(float value) { return float_of(bits_of(value) & 0x7FFFFFFFu); }

template <class Numbers>
__global__ void __launch_bounds__(threads)
    absmax_kernel(const __grid_constant__ Numbers numbers, int64_t count, bool paired, ClipRange* range) {
  float largest = 0;
  Walk(count, 0)(
      paired, static_cast<unsigned>(numbers.channels), [&](auto width, int64_t i) { return numbers.fetch(width, i); },
      [&](auto width, int64_t i, int, int channel, const auto& fetched) {
        const auto values = numbers.at(width, i, numbers.coefficients(width, channel), fetched);
#pragma unroll
        for (int e = 0; e < width(); ++e) {
          const float magnitude = magnitude_of(values.at[e]);
          largest = magnitude > largest ? magnitude : largest;
        }
      });
  largest = largest_of_block<threads>(largest);
  if (threadIdx.x == 0) atomicMax(&range->largest, bits_of(largest));
}

template <class Numbers>
__global__ void __launch_bounds__(threads) histogram_kernel(const __grid_constant__ Numbers numbers, int64_t count,
                                                            bool paired, uint32_t* histogram, int sample) {
  __shared__ uint32_t own[histogram_bins];
  for (int bin = static_cast<int>(threadIdx.x); bin < histogram_bins; bin += threads) own[bin] = 0;
  __syncthreads();
  Walk(count, 0)(
      paired, static_cast<unsigned>(numbers.channels),
      [&](auto width, int64_t i) {
        return counted(i, sample) ? numbers.fetch(width, i) : decltype(numbers.fetch(width, i)){};
      },
      [&](auto width, int64_t i, int, int channel, const auto& fetched) {
        if (!counted(i, sample)) return;  // both elements of a pair or none: sampled blocks have an even size
        const auto values = numbers.at(width, i, numbers.coefficients(width, channel), fetched);
#pragma unroll
        for (int e = 0; e < width(); ++e) atomicAdd(&own[histogram_bin(values.at[e])], 1u);
      });
  __syncthreads();
  for (int bin = static_cast<int>(threadIdx.x); bin < histogram_bins; bin += threads)
    if (own[bin] != 0) atomicAdd(&histogram[bin], own[bin]);
}

// Adds what the block's threads saw. beyond: values beyond the clip; largest: a magnitude.
__device__ __forceinline__ void report(const Codes& to, unsigned beyond, float largest) {
  if (to.largest != nullptr) {
    largest = largest_of_block<threads>(largest);
    if (threadIdx.x == 0) atomicMax(to.largest, bits_of(largest));
  }
  if (to.saturated == nullptr) return;
  __shared__ unsigned saturated;
  if (threadIdx.x == 0) saturated = 0;
  __syncthreads();
  if (beyond != 0) atomicAdd(&saturated, beyond);
  __syncthreads();
  if (threadIdx.x == 0 && saturated != 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(to.saturated), static_cast<unsigned long long>(saturated));
}

template <class Numbers>
__global__ void __launch_bounds__(threads)
    encode_kernel(const __grid_constant__ Numbers numbers, int64_t count, bool paired,
                  const __grid_constant__ StepKey step_key, const __grid_constant__ Codes to) {
  const RngKey key = step_key.now();
  const Walk walk(count, key.first);
  const unsigned channels = static_cast<unsigned>(numbers.channels);
  const auto fetch = [&](auto width, int64_t i) { return numbers.fetch(width, i); };
  if (is_real(to.type)) {
    walk(paired, channels, fetch, [&](auto width, int64_t i, int, int channel, const auto& fetched) {
      write_some(static_cast<float*>(to.out) + i, numbers.at(width, i, numbers.coefficients(width, channel), fetched));
    });
    return;
  }
  const ClipRange range = *to.range;
  Random128 random = {};
  if (to.stochastic) random = walk.random(key);
  unsigned beyond = 0;
  float largest = 0;
  walk(paired, channels, fetch, [&](auto width, int64_t i, int j, int channel, const auto& fetched) {
    const auto values = numbers.at(width, i, numbers.coefficients(width, channel), fetched);
    Some<int8_t, width()> codes;
#pragma unroll
    for (int e = 0; e < width(); ++e) {
      const float value = values.at[e];
      codes.at[e] = static_cast<int8_t>(
          to.stochastic ? encode_stochastic(value, range.inverse_scale, to.qmax, random_bits_of(random, j + e))
                        : encode_nearest(value, range.inverse_scale, to.lowest, to.qmax));
      const float magnitude = magnitude_of(value);
      beyond += magnitude > range.clip ? 1u : 0u;
      largest = magnitude > largest ? magnitude : largest;
    }
    write_some(static_cast<int8_t*>(to.out) + i, codes);
  });
  report(to, beyond, largest);
}

// The code of a value in the lowest byte of the result, which has other bits above it.
__device__ __forceinline__ uint32_t nearest_byte(float value, float inverse_scale, float lowest, float highest) {
  return bits_of(clamp_code(value * inverse_scale, lowest, highest) + 12582912.0f);  // as round_nearest() does
}
// encode_stochastic() of the 16 bits that begin at byte `first` of the word.
__device__ __forceinline__ uint32_t stochastic_byte(float value, float inverse_scale, float highest, uint32_t word,
                                                    unsigned first) {
  const uint32_t bits = chosen_bytes(word, 0x4300, 0x5400 | (first + 1) % 4 << 4 | first);  // 128 + u
  return truncated(clamp_code(value * inverse_scale, -highest, highest) + float_of(bits)) ^ 0x80u;
}
__device__ __forceinline__ uint32_t joined_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return chosen_bytes(chosen_bytes(a, b, 0x0040), chosen_bytes(c, d, 0x0040), 0x5410);
}

enum class Written { real, nearest, stochastic };

// The same of four neighbours at a time. group_step: wide_step() of the channels.
template <class Numbers, Written written>
__global__ void __launch_bounds__(threads, 4)
    encode_fours(const __grid_constant__ Numbers numbers, int64_t count, int group_step,
                 const __grid_constant__ StepKey step_key, const __grid_constant__ Codes to) {
  constexpr int width = WideWalk::width, groups = WideWalk::groups;
  const Width<width> some;
  const RngKey key = step_key.now();
  const WideWalk walk(count, key.first, group_step);
  const ClipRange range = written == Written::real ? ClipRange{} : *to.range;
  const float lowest = static_cast<float>(to.lowest), highest = static_cast<float>(to.qmax);
  Random128 random[groups] = {};
  if (written == Written::stochastic)
#pragma unroll
    for (int k = 0; k < groups; ++k) random[k] = walk.random(key, k);
  unsigned beyond = 0;
  float largest = 0;
#pragma unroll
  for (int row = 0; row < WideWalk::rows; ++row) {
    const auto coefficients = numbers.coefficients(some, walk.channel(row, numbers.channels));
    typename Numbers::template Fetched<width> fetched[groups] = {};
#pragma unroll
    for (int k = 0; k < groups; ++k)
      if (walk.inside(walk.element(row, k))) fetched[k] = numbers.fetch(some, walk.element(row, k));
#pragma unroll
    for (int k = 0; k < groups; ++k) {
      const int64_t i = walk.element(row, k);
      if (!walk.inside(i)) continue;
      const Values<width> values = numbers.at(some, i, coefficients, fetched[k]);
      if constexpr (written == Written::real) {
        write_some(static_cast<float*>(to.out) + i, values);
      } else {
        uint32_t codes[width];
#pragma unroll
        for (int e = 0; e < width; ++e) {
          const float value = values.at[e], magnitude = fabsf(value);
          codes[e] = written == Written::stochastic
                         ? stochastic_byte(value, range.inverse_scale, highest, random[k].word[row / 2 * 2 + e / 2],
                                           static_cast<unsigned>(row % 2 + e % 2 * 2))
                         : nearest_byte(value, range.inverse_scale, lowest, highest);
          beyond += magnitude > range.clip ? 1u : 0u;
          largest = fmaxf(largest, magnitude);  // a NaN is not the largest
        }
        *reinterpret_cast<uint32_t*>(static_cast<int8_t*>(to.out) + i) =
            joined_bytes(codes[0], codes[1], codes[2], codes[3]);
      }
    }
  }
  if (written != Written::real) report(to, beyond, largest);
}

// How the values of one tensor are encoded and measured, by launches on a stream.
struct TensorEncoder {
  const Encoding& encoding;
  const QTensor& to;
  ClipRange* range;  // of codes
  Stream stream;

  // Finds the clip range of `count` values and writes the scale. measured: the largest value is known in `range`.
  template <class Values>
  void find_range(const Values& values, int64_t count, bool measured = false) const {
    REQUIRE(encoding.range != Range::held || encoding.held != nullptr, "give the clip", "a held range without a clip");
    if (!measured && encoding.range != Range::held) {
      fill_zero(range, sizeof *range, stream);
      with_types(values, [&](const auto& numbers) {
        using Numbers = std::decay_t<decltype(numbers)>;
        OCTET_LAUNCH((absmax_kernel<Numbers>), walk_grid(count), dim3(threads), stream, numbers, count,
                     count % 2 == 0 && numbers.fits(2), range);
      });
    }
    launch_finish_range(range, encoding.range, encoding.held, encoding.qmax, to.scale, stream);
  }

  template <class Values>
  void count_magnitudes(const Values& values, int64_t count, const Probe& probe) const {
    if (probe.histogram == nullptr) return;
    with_types(values, [&](const auto& numbers) {
      using Numbers = std::decay_t<decltype(numbers)>;
      OCTET_LAUNCH((histogram_kernel<Numbers>), walk_grid(count), dim3(threads), stream, numbers, count,
                   count % 2 == 0 && numbers.fits(2), probe.histogram, probe.sample);
    });
  }

  template <class Values>
  void encode(const Values& values, int64_t count, const StepKey& random, const Probe& probe) const {
    const RngKey& key = random.key;
    const Codes codes{encoding.dtype,
                      encoding.rounding == Rounding::stochastic,
                      encoding.lowest(),
                      encoding.qmax,
                      range,
                      to.values.data,
                      probe.saturated,
                      reinterpret_cast<uint32_t*>(probe.largest)};
    with_types(values, [&](const auto& numbers) {
      using Numbers = std::decay_t<decltype(numbers)>;
      const auto fits = [&](int width) {
        return count % width == 0 && numbers.fits(width) && neighbours_align(width, codes.out, codes.type);
      };
      const auto launch = [&]<Written written>(std::integral_constant<Written, written>) {
        OCTET_LAUNCH((encode_fours<Numbers, written>), wide_grid(count, numbers.channels), dim3(threads), stream,
                     numbers, count, wide_step(numbers.channels), random, codes);
      };
      constexpr Written usual = Numbers::usual == Rounding::stochastic ? Written::stochastic : Written::nearest;
      const bool wide =
          fits(WideWalk::width) && key.first % WideWalk::width == 0 && key.per_sample % WideWalk::width == 0;
      if (wide && is_real(codes.type))
        launch(std::integral_constant<Written, Written::real>{});
      else if (wide && encoding.rounding == Numbers::usual)
        launch(std::integral_constant<Written, usual>{});
      else
        OCTET_LAUNCH((encode_kernel<Numbers>), walk_grid(count), dim3(threads), stream, numbers, count, fits(2), random,
                     codes);
    });
  }
};

}  // namespace
}  // namespace octet::cuda
