// The values that elementwise passes compute, and the same with types known to the compiler. For .cu files.
#pragma once
#include <limits>

#include "kernels/cuda/store.h"

namespace octet::cuda {

// The values that elementwise passes compute and then encode, as the host fills them in. Coefficients are (channels)
// each; channels is 1 where there are none.
struct PlainValues {
  const void* x;
  DType type;
  int channels = 1;
};
struct AffineForwardValues {  // clamp(a x + b + residual, low, high)
  const void* x;
  DType type;
  int channels;
  const float *a, *b;
  const void* residual;  // null: none
  DType residual_type;
  const float* residual_scale;  // of codes
  Activation activation;
  float low, high;  // its value_bounds()
  uint8_t* mask;    // bit i % 8 of byte i / 8: passes(activation, a x + b + residual); optional: encoding writes it
};
// A dz + (B x + C),  dz = dy where the mask lets it pass, else 0.
struct AffineBackwardValues {
  const void *x, *dy;
  DType type, dy_type;
  int channels;
  const uint8_t* mask;  // as above; null: all pass
  const float *A, *B, *C;
  RealOutput d_residual;  // optional: encoding writes dz here
};

// (channels) coefficients; channels come in as many neighbours as elements do.
template <int width>
__device__ __forceinline__ Values<width> of_channel(Width<width> some, const float* coefficients, int channel) {
  return read_some(some, coefficients + channel);
}
inline constexpr float beyond_all = std::numeric_limits<float>::infinity();

// What the classes below have in common. fits(): whether so many neighbours can be read at once, of one channel or of
// as many. fetch() loads what at() then computes with, so that a thread can have several loads under way.
// coefficients() are those of some channels, which a thread keeps for several elements. usual: how a training rounds
// these values. blocks: on one processor, as registers
// let them. groups: of a thread, see WideWalk.
template <DType number_type>
struct Plain : PlainValues {
  static constexpr Rounding usual = Rounding::nearest;
  static constexpr bool clamped = false;
  static constexpr int blocks = 3, groups = 4;
  template <int width>
  using Fetched = Neighbours<number_type, width>;
  template <int width>
  struct Coefficients {};
  template <int width>
  __device__ __forceinline__ Coefficients<width> coefficients(Width<width>, int) const {
    return {};
  }
  template <int width>
  __device__ __forceinline__ Fetched<width> fetch(Width<width> some, int64_t i) const {
    return read_neighbours<number_type>(some, x, i);
  }
  template <int width>
  __device__ __forceinline__ Values<width> unclamped(Width<width> some, const Coefficients<width>&,
                                                     const Fetched<width>& fetched) const {
    return values_of<number_type>(some, fetched);
  }
  template <int width>
  __device__ __forceinline__ Values<width> at(Width<width> some, int64_t, const Coefficients<width>& own,
                                              const Fetched<width>& fetched) const {
    return unclamped(some, own, fetched);
  }
  bool fits(int width) const { return neighbours_align(width, x, number_type); }
};

enum class Added : uint8_t { nothing, codes, reals };  // what the residual is

// kind: of the activation; relu6 stands for any, where masks are not asked for.
template <DType number_type, Added added, Activation kind>
struct AffineForwardOf : AffineForwardValues {
  static constexpr Rounding usual = Rounding::nearest;
  static constexpr bool clamped = kind != Activation::none;
  static constexpr DType other_type = added == Added::codes ? DType::s8 : DType::f32;  // or u8
  static constexpr int blocks = 3, groups = number_type == DType::bf16 && added != Added::reals ? 4 : 2;
  template <int width>
  struct Fetched {
    Neighbours<number_type, width> number;
    Neighbours<other_type, width> residual;
  };
  template <int width>
  struct Coefficients {
    Values<width> a, b;
  };
  template <int width>
  __device__ __forceinline__ Coefficients<width> coefficients(Width<width> some, int channel) const {
    return {of_channel(some, a, channel), of_channel(some, b, channel)};
  }
  template <int width>
  __device__ __forceinline__ Fetched<width> fetch(Width<width> some, int64_t i) const {
    Fetched<width> fetched;
    fetched.number = read_neighbours<number_type>(some, x, i);
    if constexpr (added != Added::nothing) fetched.residual = read_neighbours<other_type>(some, residual, i);
    return fetched;
  }
  // a x + b, plus the residual.
  template <int width>
  __device__ __forceinline__ Values<width> unclamped(Width<width> some, const Coefficients<width>& own,
                                                     const Fetched<width>& fetched) const {
    const Values<width> numbers = values_of<number_type>(some, fetched.number);
    Values<width> sum;
#pragma unroll
    for (int e = 0; e < width; ++e) sum.at[e] = numbers.at[e] * own.a.at[e] + own.b.at[e];
    if constexpr (added != Added::nothing) {
      const Values<width> others = values_of<other_type>(some, fetched.residual, residual_type == DType::s8);
      const float scale = added == Added::codes ? *residual_scale : 1.0f;
#pragma unroll
      for (int e = 0; e < width; ++e) sum.at[e] += others.at[e] * scale;
    }
    return sum;
  }
  template <int width>
  __device__ __forceinline__ Values<width> at(Width<width> some, int64_t, const Coefficients<width>& own,
                                              const Fetched<width>& fetched) const {
    return bounded(unclamped(some, own, fetched));
  }
  template <int width>
  __device__ __forceinline__ Values<width> bounded(Values<width> values) const {
#pragma unroll
    for (int e = 0; clamped && e < width; ++e) {
      const float z = values.at[e], raised = low > z ? low : z;  // in this order NaN stays NaN
      values.at[e] = high < raised ? high : raised;
    }
    return values;
  }
  // The bits of passes(activation, z), the first in the lowest.
  template <int width>
  __device__ __forceinline__ uint32_t passing(const Values<width>& z) const {
    uint32_t bits = 0;
#pragma unroll
    for (int e = width - 1; e >= 0; --e) {
      const float below = 0.0f - z.at[e];  // not -z, which has a sign where z is 0
      bits = with_sign_of(bits, kind == Activation::relu ? below : fmaxf(below, z.at[e] - 6.0f));
    }
    return bits;
  }
  bool fits(int width) const {
    return channels % width == 0 && neighbours_align(width, x, number_type) &&
           (added == Added::nothing || neighbours_align(width, residual, residual_type));
  }
};

// masked, forked: false only without a mask, or without a d_residual.
template <DType number_type, DType gradient_type, bool masked, bool forked>
struct AffineBackwardOf : AffineBackwardValues {
  static constexpr Rounding usual = Rounding::stochastic;
  static constexpr bool clamped = false;
  static constexpr int blocks = size_of(number_type) + size_of(gradient_type) > 4 ? 2 : 3, groups = 2;
  template <int width>
  using Gradients = Neighbours<gradient_type, width>;
  template <int width>
  struct Fetched {
    Neighbours<number_type, width> number;
    Gradients<width> gradient;
    uint32_t passes;  // one bit each
  };
  template <int width>
  struct Coefficients {
    Values<width> A, B, C;
  };
  template <int width>
  __device__ __forceinline__ Coefficients<width> coefficients(Width<width> some, int channel) const {
    return {of_channel(some, A, channel), of_channel(some, B, channel), of_channel(some, C, channel)};
  }
  template <int width>
  __device__ __forceinline__ Fetched<width> fetch(Width<width> some, int64_t i) const {
    Fetched<width> fetched;
    fetched.number = read_neighbours<number_type>(some, x, i);
    fetched.gradient = read_neighbours<gradient_type>(some, dy, i);
    if constexpr (masked && width == 8) fetched.passes = read_only(mask + (i >> 3));
    if constexpr (masked && width < 8)
      fetched.passes = mask == nullptr ? ~0u : static_cast<uint32_t>(read_only(mask + i / 8)) >> i % 8;
    return fetched;
  }
  template <int width>
  __device__ __forceinline__ Values<width> number(Width<width> some, const Fetched<width>& fetched) const {
    return values_of<number_type>(some, fetched.number);
  }
  // dy where it passes, else 0.
  template <int width>
  __device__ __forceinline__ Gradients<width> passed(Width<width> some, const Fetched<width>& fetched) const {
    if constexpr (masked)
      return kept_where<gradient_type>(some, fetched.passes, fetched.gradient);
    else
      return fetched.gradient;
  }
  template <int width>
  __device__ __forceinline__ Values<width> gradient(Width<width> some, const Fetched<width>& fetched) const {
    return values_of<gradient_type>(some, passed(some, fetched));
  }
  template <int width>
  __device__ __forceinline__ Values<width> at(Width<width> some, int64_t i, const Coefficients<width>& own,
                                              const Fetched<width>& fetched) const {
    const Gradients<width> stored = passed(some, fetched);
    const Values<width> x_values = number(some, fetched), dz = values_of<gradient_type>(some, stored);
    if (forked && d_residual.data != nullptr) {
      if (!d_residual.add && d_residual.bf16 == (gradient_type == DType::bf16))
        write_neighbours<gradient_type>(some, d_residual.data, i, stored);
      else
        write_reals(some, d_residual, i, dz);
    }
    Values<width> values;
#pragma unroll
    for (int e = 0; e < width; ++e)
      values.at[e] = own.A.at[e] * dz.at[e] + (own.B.at[e] * x_values.at[e] + own.C.at[e]);
    return values;
  }
  bool fits(int width) const {
    return channels % width == 0 && neighbours_align(width, x, number_type) &&
           neighbours_align(width, dy, gradient_type) && neighbours_align(width, d_residual);
  }
};

// Calls launch with the values as the class for their types. exact: each activation has a class of its own, and so have
// values without a mask or a d_residual; else one class serves all, so that fewer kernels are compiled. forks: values
// may have a d_residual.
template <bool /*exact*/, class Launch>
void with_types(const PlainValues& values, const Launch& launch) {
  if (values.type == DType::f32)
    launch(Plain<DType::f32>{values});
  else
    launch(Plain<DType::bf16>{values});
}
template <bool exact, DType type, Added added, class Launch>
void with_activation(const AffineForwardValues& values, const Launch& launch) {
  using enum Activation;
  if constexpr (exact) {
    if (values.activation == none) return launch(AffineForwardOf<type, added, none>{values});
    if (values.activation == relu) return launch(AffineForwardOf<type, added, relu>{values});
  }
  launch(AffineForwardOf<type, added, relu6>{values});
}
template <bool exact, DType type, class Launch>
void with_residual(const AffineForwardValues& values, const Launch& launch) {
  if (values.residual == nullptr)
    with_activation<exact, type, Added::nothing>(values, launch);
  else if (is_real(values.residual_type))
    with_activation<exact, type, Added::reals>(values, launch);
  else
    with_activation<exact, type, Added::codes>(values, launch);
}
template <bool exact, class Launch>
void with_types(const AffineForwardValues& values, const Launch& launch) {
  if (values.type == DType::f32)
    with_residual<exact, DType::f32>(values, launch);
  else
    with_residual<exact, DType::bf16>(values, launch);
}
template <bool forks, DType type, DType gradient_type, bool masked, class Launch>
void with_fork(const AffineBackwardValues& values, const Launch& launch) {
  if constexpr (forks)
    if (values.d_residual.data != nullptr) return launch(AffineBackwardOf<type, gradient_type, masked, true>{values});
  launch(AffineBackwardOf<type, gradient_type, masked, false>{values});
}
template <bool exact, bool forks, DType type, DType gradient_type, class Launch>
void with_mask(const AffineBackwardValues& values, const Launch& launch) {
  if constexpr (!exact)
    launch(AffineBackwardOf<type, gradient_type, true, true>{values});
  else if (values.mask == nullptr)
    with_fork<forks, type, gradient_type, false>(values, launch);
  else
    with_fork<forks, type, gradient_type, true>(values, launch);
}
template <bool exact, bool forks, DType gradient_type, class Launch>
void with_gradients(const AffineBackwardValues& values, const Launch& launch) {
  if (values.type == DType::f32)
    with_mask<exact, forks, DType::f32, gradient_type>(values, launch);
  else if (values.type == DType::bf16)
    with_mask<exact, forks, DType::bf16, gradient_type>(values, launch);
  else
    with_mask<exact, forks, DType::s8, gradient_type>(values, launch);
}
template <bool exact, bool forks = exact, class Launch>
void with_types(const AffineBackwardValues& values, const Launch& launch) {
  if (values.dy_type == DType::f32)
    with_gradients<exact, forks, DType::f32>(values, launch);
  else
    with_gradients<exact, forks, DType::bf16>(values, launch);
}

}  // namespace octet::cuda
