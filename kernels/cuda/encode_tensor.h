// What happens to the values that a pass computes: they are measured, counted, encoded. For quantize.cu and affine.cu,
// whose subnormal numbers are zero.
#pragma once
#include <cmath>

#include "kernels/cuda/clip_range.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/kernel_arguments.h"
#include "kernels/cuda/values.h"
#include "kernels/cuda/walk.h"
#include "kernels/shared/affine.h"

namespace octet::cuda {
namespace {

// Where and how values are encoded.
struct Codes {
  DType type = DType::f32;  // f32: values are written as they are, and nothing below but `out` matters
  bool stochastic = false;
  int lowest = -127, qmax = 127;
  const ClipRange* range = nullptr;  // found before; not read where the clip is held
  const float* held = nullptr;
  float* scale = nullptr;  // written where the clip is held
  void* out = nullptr;
  uint64_t* saturated = nullptr;
  uint32_t* largest = nullptr;  // bits of max |value|
  // Of the float 128 + u, see encode_stochastic(). A kernel's argument stays in a register. A constant would be loaded
  // for each element, because an instruction has room for one constant and this one would have two.
  uint32_t upper_bits = 0x4300;

  // Each thread completes a held range for itself, as that takes fewer instructions than a kernel takes to start.
  __device__ __forceinline__ ClipRange range_now() const {
    if (held == nullptr) return *range;
    const float clip = *held;
    if (blockIdx.x == 0 && threadIdx.x == 0) *scale = scale_of(clip, qmax);
    return {0, clip, inverse_scale_of(clip, qmax)};
  }
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
  const ClipRange range = to.range_now();
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

// Of the lowest bytes of four words.
__device__ __forceinline__ uint32_t joined_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return chosen_bytes(chosen_bytes(a, b, 0x0040), chosen_bytes(c, d, 0x0040), 0x5410);
}

enum class Written : uint8_t { real, nearest, nearest_measured, stochastic };  // measured: for Codes::largest

// How values round to codes. The bounds of the values are bounds of their codes: products round monotonically.
template <class Numbers, Written written>
struct WideEncoder {
  float inverse_scale = 0, lowest = 0, highest = 0, clip = 0;
  uint32_t upper_bits = 0;
  unsigned beyond = 0;
  float largest = 0;
  __device__ __forceinline__ WideEncoder(const Numbers& numbers, const Codes& to) {
    if (written == Written::real) return;
    const ClipRange range = to.range_now();
    inverse_scale = range.inverse_scale, clip = range.clip;
    lowest = static_cast<float>(to.lowest), highest = static_cast<float>(to.qmax);
    if (written == Written::stochastic) lowest = -highest, upper_bits = to.upper_bits;
    if constexpr (Numbers::clamped) {
      lowest = fmaxf(numbers.low * inverse_scale, lowest), highest = fminf(numbers.high * inverse_scale, highest);
      clip = numbers.high > clip ? clip : beyond_all;  // of values that are not clamped
    }
  }
  // The codes of eight neighbours of a row. random: WideWalk's.
  __device__ __forceinline__ Some<uint32_t, 2> codes(const Values<8>& values, const Random128& random, int row) {
    constexpr bool positive = Numbers::clamped;
    uint32_t code[8];  // in the lowest bytes
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float value = values.at[e];
      count_beyond<!positive>(beyond, value, clip);
      if (written == Written::nearest_measured) largest = fmaxf(largest, positive ? value : fabsf(value));  // no NaN
      const float scaled = clamp_code(value * inverse_scale, lowest, highest);
      const unsigned at = static_cast<unsigned>(row + e % 2 * 2);  // of the word's bytes
      if (written == Written::stochastic)                          // the bits make 128 + u
        code[e] =
            truncated(scaled + float_of(chosen_bytes(random.word[e / 2], upper_bits, 0x5400 | (at + 1) % 4 << 4 | at)));
      else
        code[e] = bits_of(scaled + 12582912.0f);  // as round_nearest() does
    }
    const uint32_t sign = written == Written::stochastic ? 0x80808080u : 0u;
    return {{joined_bytes(code[0], code[1], code[2], code[3]) ^ sign,
             joined_bytes(code[4], code[5], code[6], code[7]) ^ sign}};
  }
};

// The same of eight neighbours at a time.
template <class Numbers, Written written>
__global__ void __launch_bounds__(threads, Numbers::blocks)
    encode_eights(const __grid_constant__ Numbers numbers, const __grid_constant__ StepKey step_key,
                  const __grid_constant__ WideExtent extent, const __grid_constant__ Codes to) {
  constexpr int groups = Numbers::groups;
  const Width<8> some;
  const RngKey key = step_key.now();
  const WideWalk<groups> walk(extent, key.first);
  WideEncoder<Numbers, written> encoder(numbers, to);
  Random128 random[groups] = {};
  if (written == Written::stochastic)
#pragma unroll
    for (int k = 0; k < groups; ++k) random[k] = walk.random(key, k);
  int channel = walk.channel(extent);
#pragma unroll
  for (int row = 0; row < WideWalk<groups>::rows; ++row) {
    if (row > 0) channel = walk.next_row(extent, channel);
    typename Numbers::template Fetched<8> fetched[groups] = {};
#pragma unroll
    for (int k = 0; k < groups; ++k) {
      const int64_t i = int64_t{walk.element(k)} + row * RandomGroup::half;
      if (walk.inside(i)) fetched[k] = numbers.fetch(some, i);
    }
    const auto own = numbers.coefficients(some, channel);
#pragma unroll
    for (int k = 0; k < groups; ++k) {
      const int64_t i = int64_t{walk.element(k)} + row * RandomGroup::half;
      if (!walk.inside(i)) continue;
      Values<8> values;
      if constexpr (Numbers::clamped) {
        values = numbers.unclamped(some, own, fetched[k]);
        if (numbers.mask != nullptr) numbers.mask[i >> 3] = static_cast<uint8_t>(numbers.passing(values));
        if (written == Written::real) values = numbers.bounded(values);
      } else {
        values = numbers.at(some, i, own, fetched[k]);
      }
      if (written == Written::real)
        write_some(static_cast<float*>(to.out) + i, values);
      else
        write_some(reinterpret_cast<uint32_t*>(static_cast<int8_t*>(to.out) + i),
                   encoder.codes(values, random[k], row));
    }
  }
  if constexpr (Numbers::clamped) encoder.largest = fminf(encoder.largest, numbers.high);
  if (written != Written::real) report(to, encoder.beyond, encoder.largest);
}

// Writes the mask alone, where encode_eights does not.
template <class Numbers>
__global__ void __launch_bounds__(threads) mask_kernel(const __grid_constant__ Numbers numbers, int64_t count) {
  const Width<1> one;
  const int64_t byte = thread_index(), first = byte * 8;
  if (first >= count) return;
  uint32_t bits = 0;
  for (int e = 0; e < 8 && first + e < count; ++e) {
    const auto own = numbers.coefficients(one, static_cast<int>((first + e) % numbers.channels));
    const float z = numbers.unclamped(one, own, numbers.fetch(one, first + e)).at[0];
    bits |= passes(numbers.activation, z) ? 1u << e : 0u;
  }
  numbers.mask[byte] = static_cast<uint8_t>(bits);
}

// How the values of one tensor are encoded and measured, by launches on a stream.
struct TensorEncoder {
  const Encoding& encoding;
  const QTensor& to;
  ClipRange* range;  // of codes
  Stream stream;

  // Finds the clip range of `count` values and writes the scale, unless the range is held: then encode() does both.
  // measured: the largest value is known in `range`.
  template <class Values>
  void find_range(const Values& values, int64_t count, bool measured = false) const {
    REQUIRE(encoding.range != Range::held || encoding.held != nullptr, "give the clip", "a held range without a clip");
    if (encoding.range == Range::held) return;
    if (!measured) {
      fill_zero(range, sizeof *range, stream);
      with_types<false>(values, [&](const auto& numbers) {
        using Numbers = std::decay_t<decltype(numbers)>;
        OCTET_LAUNCH((absmax_kernel<Numbers>), walk_grid(count), dim3(threads), stream, numbers, count,
                     count % 2 == 0 && numbers.fits(2), range);
      });
    }
    launch_finish_range(range, encoding.qmax, to.scale, stream);
  }

  template <class Values>
  void count_magnitudes(const Values& values, int64_t count, const Probe& probe) const {
    if (probe.histogram == nullptr) return;
    with_types<false>(values, [&](const auto& numbers) {
      using Numbers = std::decay_t<decltype(numbers)>;
      OCTET_LAUNCH((histogram_kernel<Numbers>), walk_grid(count), dim3(threads), stream, numbers, count,
                   count % 2 == 0 && numbers.fits(2), probe.histogram, probe.sample);
    });
  }

  template <class Values>
  void encode(const Values& values, int64_t count, const StepKey& random, const Probe& probe) const {
    const Codes codes{encoding.dtype,
                      encoding.rounding == Rounding::stochastic,
                      encoding.lowest(),
                      encoding.qmax,
                      range,
                      encoding.range == Range::held ? encoding.held : nullptr,
                      to.scale,
                      to.values.data,
                      probe.saturated,
                      reinterpret_cast<uint32_t*>(probe.largest)};
    if (encode_wide(values, count, random, codes)) return;
    with_types<false>(values, [&](const auto& numbers) {
      using Numbers = std::decay_t<decltype(numbers)>;
      const bool paired = count % 2 == 0 && numbers.fits(2) && neighbours_align(2, codes.out, codes.type);
      OCTET_LAUNCH((encode_kernel<Numbers>), walk_grid(count), dim3(threads), stream, numbers, count, paired, random,
                   codes);
      if constexpr (Numbers::usual == Rounding::nearest && Numbers::clamped)
        if (numbers.mask != nullptr)
          OCTET_LAUNCH_EACH((mask_kernel<Numbers>), (count + 7) / 8, threads, stream, numbers, count);
    });
  }

 private:
  // Encodes eight neighbours at a time and returns true, if shape, memory and rounding let it.
  template <class Values>
  bool encode_wide(const Values& values, int64_t count, const StepKey& random, const Codes& codes) const {
    const RngKey& key = random.key;
    if (count % 8 != 0 || !WideExtent::fits(count, values.channels) || key.first % 8 != 0 || key.per_sample % 8 != 0 ||
        !neighbours_align(8, codes.out, codes.type))
      return false;
    bool launched = false;
    with_types<true>(values, [&](const auto& numbers) {
      using Numbers = std::decay_t<decltype(numbers)>;
      if (!numbers.fits(8) || !(is_real(codes.type) || encoding.rounding == Numbers::usual)) return;
      launched = true;
      const WideExtent extent(count, numbers.channels);
      const auto launch = [&]<Written written>(std::integral_constant<Written, written>) {
        OCTET_LAUNCH((encode_eights<Numbers, written>), extent.grid(Numbers::groups), dim3(threads), stream, numbers,
                     random, extent, codes);
      };
      if (is_real(codes.type)) return launch(std::integral_constant<Written, Written::real>{});
      if constexpr (Numbers::usual == Rounding::stochastic)
        launch(std::integral_constant<Written, Written::stochastic>{});
      else if (codes.largest != nullptr)
        launch(std::integral_constant<Written, Written::nearest_measured>{});
      else
        launch(std::integral_constant<Written, Written::nearest>{});
    });
    return launched;
  }
};

}  // namespace
}  // namespace octet::cuda
