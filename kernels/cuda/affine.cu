// Elementwise passes. Values are computed, then measured, counted or encoded: quantization, the affine step and its
// backward pass. Also the optimizer.
#define OCTET_FLUSH_SUBNORMALS  // read and written as zero, as in the CPU's passes; the build adds nvcc's -ftz=true
#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/values.h"
#include "kernels/cuda/walk.h"
#include "kernels/shared/affine.h"
#include "kernels/shared/checks.h"
#include "kernels/shared/fixed_point.h"

namespace octet::cuda {

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

namespace {

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

__global__ void keep_codes_kernel(const void* x, DType type, int64_t count, int64_t channels, const float* scale,
                                  const float* offset, int8_t* codes) {
  const int64_t i = thread_index();
  if (i >= count) return;
  const InputUnit unit{scale[i % channels], offset[i % channels]};
  write_code(codes, i, encode_nearest(read_value(x, type, i) - unit.offset, inverse_of(unit), -127, 127));
}

__global__ void find_nonfinite_kernel(const void* x, DType type, int64_t count, int32_t* found) {
  const int64_t i = thread_index();
  if (i < count && (bits_of(read_value(x, type, i)) & 0x7F800000u) == 0x7F800000u) *found = 1;
}

__global__ void add_fixed_kernel(const float* values, int64_t count, int64_t* sums, bool add, int32_t* beyond) {
  const int64_t i = thread_index();
  if (i >= count) return;
  const bool fits = fits_fixed(values[i]);
  if (!fits) *beyond = 1;
  sums[i] = (add ? sums[i] : 0) + (fits ? to_fixed(values[i]) : 0);
}

__global__ void read_fixed_kernel(const int64_t* sums, int64_t count, float* values) {
  const int64_t i = thread_index();
  if (i < count) values[i] = from_fixed(sums[i]);
}

__global__ void sgd_kernel(const __grid_constant__ SgdProblem p, const StepState* state, const float* lr_scale,
                           float* w, const float* gradient, float* velocity, int64_t count) {
  const int64_t i = thread_index();
  if (i >= count) return;
  const float base = (state != nullptr ? state->learning_rate : p.learning_rate) * p.rate_factor;
  const float rate = lr_scale != nullptr ? base * *lr_scale : base;
  const float weight = w[i], slope = gradient[i] + p.decay * weight;
  const float speed = p.momentum * velocity[i] + slope;
  velocity[i] = speed;
  w[i] = weight - rate * (p.nesterov ? slope + p.momentum * speed : speed);
}

__global__ void move_average_kernel(float share, const float* value, float* average, int64_t count) {
  const int64_t i = thread_index();
  if (i < count) average[i] += share * (value[i] - average[i]);
}

}  // namespace

template <class Values>
void CudaBackend::find_range(const Values& values, int64_t count, const Encoding& encoding, float* scale,
                             bool measured) {
  REQUIRE(encoding.range != Range::held || encoding.held != nullptr, "give the clip", "a held range without a clip");
  ClipRange* const range = ranges_.get<ClipRange>(1);
  if (!measured && encoding.range != Range::held) {
    fill_zero(range, sizeof *range, stream_);
    with_types(values, [&](const auto& numbers) {
      using Numbers = std::decay_t<decltype(numbers)>;
      OCTET_LAUNCH((absmax_kernel<Numbers>), walk_grid(count), dim3(threads), stream_, numbers, count,
                   count % 2 == 0 && numbers.fits(2), range);
    });
  }
  launch_finish_range(range, encoding.range, encoding.held, encoding.qmax, scale, stream_);
}

template <class Values>
void CudaBackend::count_magnitudes(const Values& values, int64_t count, Probe probe) {
  if (probe.histogram == nullptr) return;
  with_types(values, [&](const auto& numbers) {
    using Numbers = std::decay_t<decltype(numbers)>;
    OCTET_LAUNCH((histogram_kernel<Numbers>), walk_grid(count), dim3(threads), stream_, numbers, count,
                 count % 2 == 0 && numbers.fits(2), probe.histogram, probe.sample);
  });
}

template <class Values>
void CudaBackend::encode(const Values& values, int64_t count, const Encoding& encoding, const RngKey& key, void* out,
                         const Probe& probe) {
  const Codes to{encoding.dtype,
                 encoding.rounding == Rounding::stochastic,
                 encoding.lowest(),
                 encoding.qmax,
                 encoding.quantized() ? ranges_.get<ClipRange>(1) : nullptr,
                 out,
                 probe.saturated,
                 reinterpret_cast<uint32_t*>(probe.largest)};
  with_types(values, [&](const auto& numbers) {
    using Numbers = std::decay_t<decltype(numbers)>;
    const auto fits = [&](int width) {
      return count % width == 0 && numbers.fits(width) && neighbours_align(width, to.out, to.type);
    };
    const auto launch = [&]<Written written>(std::integral_constant<Written, written>) {
      OCTET_LAUNCH((encode_fours<Numbers, written>), wide_grid(count, numbers.channels), dim3(threads), stream_,
                   numbers, count, wide_step(numbers.channels), of_step(key), to);
    };
    constexpr Written usual = Numbers::usual == Rounding::stochastic ? Written::stochastic : Written::nearest;
    const bool wide =
        fits(WideWalk::width) && key.first % WideWalk::width == 0 && key.per_sample % WideWalk::width == 0;
    if (wide && is_real(to.type))
      launch(std::integral_constant<Written, Written::real>{});
    else if (wide && encoding.rounding == Numbers::usual)
      launch(std::integral_constant<Written, usual>{});
    else
      OCTET_LAUNCH((encode_kernel<Numbers>), walk_grid(count), dim3(threads), stream_, numbers, count, fits(2),
                   of_step(key), to);
  });
}

void CudaBackend::compute(const QuantizeCall& call) {
  const auto& [from, encoding, key, to, probe] = call;
  const PlainValues values{from.data, from.dtype};
  const int64_t count = from.elements();
  if (encoding.quantized()) find_range(values, count, encoding, to.scale);
  count_magnitudes(values, count, probe);
  encode(values, count, encoding, key, to.values.data, probe);
}

void CudaBackend::compute(const AffineForwardCall& call) {
  const auto& [problem, x, moments, parameters, residual, encoding, key, y, asked] = call;
  Probe probe = asked;
  const int64_t channels = problem.shape.c, count = problem.shape.elements();
  float* const a = coefficients_.get<float>(3 * channels);
  float *const b = a + channels, *const mean = b + channels;
  launch_affine_coefficients(problem, moments, parameters, nullptr, nullptr, a, b, mean, stream_);
  if (x.codes) {
    launch_units(moments, channels, x.scale, x.offset, stream_);
    OCTET_LAUNCH_EACH(keep_codes_kernel, count, threads, stream_, x.real.data, x.real.dtype, count, channels, x.scale,
                      x.offset, x.codes.s8());
  }
  const auto [low, high] = value_bounds(problem.activation);
  const AffineForwardValues values{x.real.data,
                                   x.real.dtype,
                                   static_cast<int>(channels),
                                   a,
                                   b,
                                   residual.values.data,
                                   residual.values.dtype,
                                   residual.scale,
                                   low,
                                   high};
  // Without a residual, y is monotonic in x within a channel: the extremes of x give those of y.
  const bool from_moments = !residual && moments.min && moments.max;
  if (from_moments && probe.largest) {
    launch_affine_extremes(problem.activation, channels, a, b, moments, reinterpret_cast<uint32_t*>(probe.largest),
                           stream_);
    probe.largest = nullptr;
  }
  if (encoding.quantized()) {
    if (from_moments && encoding.range != Range::held) {
      ClipRange* const range = ranges_.get<ClipRange>(1);
      fill_zero(range, sizeof *range, stream_);
      launch_affine_extremes(problem.activation, channels, a, b, moments, &range->largest, stream_);
    }
    find_range(values, count, encoding, y.scale, from_moments);
  }
  encode(values, count, encoding, key, y.values.data, probe);
}

void CudaBackend::compute(const AffineBackwardCall& call) {
  const auto& [problem, x, moments, parameters, residual, dy, d_gamma, d_beta, d_residual, encoding, key, grad_output,
               probe] = call;
  const int64_t channels = problem.shape.c, count = problem.shape.elements();
  float* const a = coefficients_.get<float>(6 * channels);
  float *const b = a + channels, *const mean = b + channels, *const A = mean + channels, *const B = A + channels,
               *const C = B + channels;
  const Tensor input = x.codes ? x.codes : x.real;
  const float *const scale = x.codes ? x.scale : nullptr, *const offset = x.codes ? x.offset : nullptr;
  launch_affine_coefficients(problem, moments, parameters, scale, offset, a, b, mean, stream_);

  const auto [low, high] = value_bounds(problem.activation);
  const bool activated = problem.activation != Activation::none;
  AffineBackwardValues values{.x = input.data,
                              .dy = dy.data,
                              .residual = activated ? residual.values.data : nullptr,
                              .type = input.dtype,
                              .dy_type = dy.dtype,
                              .residual_type = residual.values.dtype,
                              .residual_scale = residual.scale,
                              .channels = static_cast<int>(channels),
                              .activated = activated,
                              .a = a,
                              .b = b,
                              .A = A,
                              .B = B,
                              .C = C,
                              .low = low,
                              .high = high,
                              .d_residual = {}};

  double* sums = nullptr;
  if ((problem.normalize && problem.batch_statistics) || (grad_output && (d_gamma || d_beta))) {
    float* const partial = partial_.get<float>(affine_partial_floats(count, channels));
    const int64_t rows = affine_partial_floats(count, channels);  // more than (chunks, 2, channels) doubles need
    sums = sums_.get<double>(2 * channels + rows);
    launch_affine_reduce(values, mean, count, partial, sums + 2 * channels, sums, stream_);
  }
  launch_affine_gradients(problem, moments, parameters, scale, offset, sums, A, B, C, grad_output ? d_gamma : Into{},
                          grad_output ? d_beta : Into{}, stream_);
  if (grad_output && encoding.quantized()) find_range(values, count, encoding, grad_output.scale);
  count_magnitudes(values, count, probe);
  if (!grad_output) return;
  if (d_residual) values.d_residual = real_output(d_residual);
  encode(values, count, encoding, key, grad_output.values.data, probe);
}

void CudaBackend::add_fixed(Tensor values, int64_t* sums, bool add, int32_t* beyond) {
  OCTET_LAUNCH_EACH(add_fixed_kernel, values.elements(), threads, stream_, values.f32(), values.elements(), sums, add,
                    beyond);
}

void CudaBackend::read_fixed(const int64_t* sums, Tensor values) {
  OCTET_LAUNCH_EACH(read_fixed_kernel, values.elements(), threads, stream_, sums, values.elements(), values.f32());
}

void CudaBackend::sgd_update(const SgdProblem& problem, Tensor w, Tensor gradient, Tensor velocity,
                             const float* lr_scale) {
  REQUIRE(!recording_ || problem.learning_rate == now_.learning_rate, "give the state of the step that runs",
          "a learning rate of ", problem.learning_rate, " in a program that is recorded for ", now_.learning_rate);
  const StepState* const state = recording_ ? state_.data<StepState>() : nullptr;
  OCTET_LAUNCH_EACH(sgd_kernel, w.elements(), threads, stream_, problem, state, lr_scale, w.f32(), gradient.f32(),
                    velocity.f32(), w.elements());
}

void CudaBackend::move_average(float share, Tensor value, Tensor average) {
  OCTET_LAUNCH_EACH(move_average_kernel, average.elements(), threads, stream_, share, value.f32(), average.f32(),
                    average.elements());
}

void CudaBackend::find_nonfinite(Tensor x, int32_t* found) {
  fill_zero(found, sizeof *found, stream_);
  if (is_real(x.dtype))
    OCTET_LAUNCH_EACH(find_nonfinite_kernel, x.elements(), threads, stream_, x.data, x.dtype, x.elements(), found);
}

}  // namespace octet::cuda
