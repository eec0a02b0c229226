// The values that elementwise passes compute, and the same with types known to the compiler. For .cu files.
#pragma once
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
  float low, high;
};
// A dz + (B x + C),  dz = dy where low < a x + b (+ residual) < high, else 0; dy everywhere unless activated.
struct AffineBackwardValues {
  const void *x, *dy, *residual;  // residual: null, codes or f32
  DType type, dy_type, residual_type;
  const float* residual_scale;
  int channels;
  bool activated;
  const float *a, *b, *A, *B, *C;
  float low, high;
  RealOutput d_residual;  // optional: encoding writes dz here
};

// (channels) coefficients; channels come in as many neighbours as elements do.
template <int width>
__device__ __forceinline__ Values<width> of_channel(Width<width> some, const float* coefficients, int channel) {
  return read_some(some, coefficients + channel);
}

// Whether read_bits() takes so many neighbours of a residual.
inline bool residual_fits(int width, const void* residual, DType type) {
  return residual == nullptr || ((width <= 2 || !is_real(type)) && neighbours_align(width, residual, type));
}

// fits(): whether so many neighbours can be read at once, of one channel or of as many.
// fetch() loads what at() then computes with, so that a thread can have several loads under way. coefficients() are
// those of some channels, which a thread keeps for several elements. usual: how a training rounds these values.
template <DType number_type>
struct Plain : PlainValues {
  static constexpr Rounding usual = Rounding::nearest;
  template <int width>
  using Fetched = Some<Stored<number_type>, width>;
  template <int width>
  struct Coefficients {};
  template <int width>
  __device__ __forceinline__ Coefficients<width> coefficients(Width<width>, int) const {
    return {};
  }
  template <int width>
  __device__ __forceinline__ Fetched<width> fetch(Width<width> some, int64_t i) const {
    return read_some(some, static_cast<const Stored<number_type>*>(x) + i);
  }
  template <int width>
  __device__ __forceinline__ Values<width> at(Width<width>, int64_t, const Coefficients<width>&,
                                              const Fetched<width>& fetched) const {
    return values_of<number_type>(fetched);
  }
  bool fits(int width) const { return neighbours_align(width, x, number_type); }
};

// a x + b, plus the residual if there is one; bits: its fetched codes or numbers.
template <int width>
__device__ __forceinline__ Values<width> affine_sum(Width<width> some, const Values<width>& x, const Values<width>& a,
                                                    const Values<width>& b, const void* residual, uint64_t bits,
                                                    DType residual_type, const float* residual_scale) {
  Values<width> sum;
#pragma unroll
  for (int e = 0; e < width; ++e) sum.at[e] = x.at[e] * a.at[e] + b.at[e];
  if (residual == nullptr) return sum;
  const Values<width> other = values_of_bits(some, bits, residual_type);
  const float scale = is_real(residual_type) ? 1.0f : *residual_scale;
#pragma unroll
  for (int e = 0; e < width; ++e) sum.at[e] += other.at[e] * scale;
  return sum;
}

template <DType number_type>
struct AffineForwardOf : AffineForwardValues {
  static constexpr Rounding usual = Rounding::nearest;
  template <int width>
  struct Fetched {
    Some<Stored<number_type>, width> number;
    uint64_t residual;
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
    return {read_some(some, static_cast<const Stored<number_type>*>(x) + i),
            residual != nullptr ? read_bits(some, residual, residual_type, i) : 0};
  }
  template <int width>
  __device__ __forceinline__ Values<width> at(Width<width> some, int64_t, const Coefficients<width>& own,
                                              const Fetched<width>& fetched) const {
    Values<width> values = affine_sum(some, values_of<number_type>(fetched.number), own.a, own.b, residual,
                                      fetched.residual, residual_type, residual_scale);
#pragma unroll
    for (int e = 0; e < width; ++e) {
      const float z = values.at[e], raised = low > z ? low : z;  // in this order NaN stays NaN
      values.at[e] = high < raised ? high : raised;
    }
    return values;
  }
  bool fits(int width) const {
    return channels % width == 0 && neighbours_align(width, x, number_type) &&
           residual_fits(width, residual, residual_type);
  }
};

template <DType number_type, DType gradient_type>
struct AffineBackwardOf : AffineBackwardValues {
  static constexpr Rounding usual = Rounding::stochastic;
  template <int width>
  struct Fetched {
    Some<Stored<number_type>, width> number;
    Some<Stored<gradient_type>, width> gradient;
    uint64_t residual;
  };
  template <int width>
  struct Coefficients {
    Values<width> a, b, A, B, C;
  };
  template <int width>
  __device__ __forceinline__ Coefficients<width> coefficients(Width<width> some, int channel) const {
    return {activated ? of_channel(some, a, channel) : Values<width>{},
            activated ? of_channel(some, b, channel) : Values<width>{}, of_channel(some, A, channel),
            of_channel(some, B, channel), of_channel(some, C, channel)};
  }
  template <int width>
  __device__ __forceinline__ Fetched<width> fetch(Width<width> some, int64_t i) const {
    return {read_some(some, static_cast<const Stored<number_type>*>(x) + i),
            read_some(some, static_cast<const Stored<gradient_type>*>(dy) + i),
            residual != nullptr ? read_bits(some, residual, residual_type, i) : 0};
  }
  template <int width>
  __device__ __forceinline__ Values<width> number(const Fetched<width>& fetched) const {
    return values_of<number_type>(fetched.number);
  }
  // dy where the activation passed, else 0.
  template <int width>
  __device__ __forceinline__ Values<width> masked(Width<width> some, const Coefficients<width>& own,
                                                  const Fetched<width>& fetched) const {
    Values<width> dz = values_of<gradient_type>(fetched.gradient);
    if (!activated) return dz;
    const Values<width> judged =
        affine_sum(some, number(fetched), own.a, own.b, residual, fetched.residual, residual_type, residual_scale);
#pragma unroll
    for (int e = 0; e < width; ++e) dz.at[e] = judged.at[e] > low && judged.at[e] < high ? dz.at[e] : 0.0f;
    return dz;
  }
  template <int width>
  __device__ __forceinline__ Values<width> at(Width<width> some, int64_t i, const Coefficients<width>& own,
                                              const Fetched<width>& fetched) const {
    const Values<width> x_values = number(fetched), dz = masked(some, own, fetched);
    if (d_residual.data != nullptr) write_reals(some, d_residual, i, dz);
    Values<width> values;
#pragma unroll
    for (int e = 0; e < width; ++e)
      values.at[e] = own.A.at[e] * dz.at[e] + (own.B.at[e] * x_values.at[e] + own.C.at[e]);
    return values;
  }
  bool fits(int width) const {
    return channels % width == 0 && neighbours_align(width, x, number_type) &&
           neighbours_align(width, dy, gradient_type) && residual_fits(width, residual, residual_type) &&
           neighbours_align(width, d_residual);
  }
};

// Calls launch with the values as the class for their types.
template <class Launch>
void with_types(const PlainValues& values, const Launch& launch) {
  if (values.type == DType::f32)
    launch(Plain<DType::f32>{values});
  else
    launch(Plain<DType::bf16>{values});
}
template <class Launch>
void with_types(const AffineForwardValues& values, const Launch& launch) {
  if (values.type == DType::f32)
    launch(AffineForwardOf<DType::f32>{values});
  else
    launch(AffineForwardOf<DType::bf16>{values});
}
template <DType gradient_type, class Launch>
void with_gradients(const AffineBackwardValues& values, const Launch& launch) {
  if (values.type == DType::f32)
    launch(AffineBackwardOf<DType::f32, gradient_type>{values});
  else if (values.type == DType::bf16)
    launch(AffineBackwardOf<DType::bf16, gradient_type>{values});
  else
    launch(AffineBackwardOf<DType::s8, gradient_type>{values});
}
template <class Launch>
void with_types(const AffineBackwardValues& values, const Launch& launch) {
  if (values.dy_type == DType::f32)
    with_gradients<DType::f32>(values, launch);
  else
    with_gradients<DType::bf16>(values, launch);
}

}  // namespace octet::cuda
