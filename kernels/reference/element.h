// One element of a tensor of any type, and the encoder of one tensor.
#pragma once
#include <cmath>

#include "kernels/backend.h"
#include "kernels/shared/encode.h"

namespace octet::reference {

// A code or a real number, as float.
inline float read(Tensor tensor, int64_t i) {
  switch (tensor.dtype) {
    case DType::s8:
      return tensor.s8()[i];
    case DType::u8:
      return tensor.u8()[i];
    case DType::bf16:
      return from_bf16(tensor.as<uint16_t>()[i]);
    case DType::f32:
      break;
  }
  return tensor.f32()[i];
}
inline void write(Tensor tensor, int64_t i, float value) {
  REQUIRE(is_real(tensor.dtype), "give an f32 or bf16 tensor", "a real number cannot be written into int8 codes");
  if (tensor.dtype == DType::bf16) {
    tensor.as<uint16_t>()[i] = to_bf16(value);
  } else {
    tensor.f32()[i] = value;
  }
}
// Any code, in the byte that holds it.
inline void write_code(Tensor tensor, int64_t i, int code) { tensor.s8()[i] = static_cast<int8_t>(code); }
// A code is rounded to nearest.
inline void write_code_or_real(Tensor tensor, int64_t i, float x) {
  if (is_real(tensor.dtype))
    write(tensor, i, x);
  else
    write_code(tensor, i, static_cast<int>(round_nearest(x)));
}
inline bool read_bit(Tensor mask, int64_t i) { return (mask.u8()[i / 8] >> i % 8 & 1) != 0; }
inline bool is_even(Shape shape, int64_t i) {  // whether the element's pixel lies in an even row and column
  const int64_t pixel = i / shape.c;
  return pixel % shape.w % 2 == 0 && pixel / shape.w % shape.h % 2 == 0;
}
// The sum is taken in float before it is rounded to the tensor's type.
inline void write(Into into, int64_t i, float value) {
  const bool part = !into.even || is_even(into.tensor.shape, i);
  if (!into.add && !part) return;
  const auto before = [&] { return part && (!into.mask || read_bit(into.mask, i)) ? read(into.tensor, i) : 0.0f; };
  write(into.tensor, i, into.add ? before() + value : value);
}
// code * scale, or the real number.
inline float value(QTensor tensor, int64_t i) {
  return tensor.real() ? read(tensor.values, i) : read(tensor.values, i) * *tensor.scale;
}

// The clip that an encoding asks for; absmax() is called only when it is needed.
template <class AbsMax>
float clip_of(const Encoding& encoding, AbsMax absmax) {
  if (encoding.range == Range::held) {
    REQUIRE(encoding.held != nullptr && *encoding.held > 0, "measure the first clip before quantizing with it",
            "a held clip must be positive");
    return *encoding.held;
  }
  return absmax();
}

struct Encoder {
  const Encoding& encoding;
  const RngKey& key;
  float clip = 0, inverse_scale = 0;

  Encoder(const Encoding& how, const RngKey& random, float range)
      : encoding(how), key(random), clip(range), inverse_scale(inverse_scale_of(range, how.qmax)) {}
  float scale() const { return scale_of(clip, encoding.qmax); }
  int operator()(float x, int64_t element) const {
    if (encoding.rounding == Rounding::nearest)
      return encode_nearest(x, inverse_scale, encoding.lowest(), encoding.qmax);
    return encode_stochastic(x, inverse_scale, encoding.qmax, random_bits16(key, static_cast<uint64_t>(element)));
  }
};

inline void count_histogram(Probe probe, int64_t element, float x) {
  if (probe.histogram != nullptr && counted(element, probe.sample)) ++probe.histogram[histogram_bin(x)];
}
inline void count_saturated(Probe probe, float x, float clip) {
  if (probe.saturated != nullptr && std::fabs(x) > clip) ++*probe.saturated;
}

// max |x| of count numbers; NaN counts as nothing.
template <class At>
float absmax_of(int64_t count, At at) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float magnitude = std::fabs(at(i));
    if (magnitude > largest) largest = magnitude;
  }
  return largest;
}

}  // namespace octet::reference
