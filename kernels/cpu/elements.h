// Elements of a tensor, by the type that stores them: float, uint16_t for bf16, int8_t and uint8_t for codes.
#pragma once
#include <type_traits>

#include "kernels/base/tensor.h"
#include "kernels/shared/encode.h"

namespace octet::cpu {

OCTET_BOTH float as_float(float x) { return x; }
OCTET_BOTH float as_float(uint16_t x) { return from_bf16(x); }
OCTET_BOTH float as_float(int8_t x) { return x; }
OCTET_BOTH float as_float(uint8_t x) { return x; }
template <class T>
T as_stored(float x) {
  if constexpr (std::is_same_v<T, uint16_t>) {
    return to_bf16(x);
  } else if constexpr (sizeof(T) == 1) {
    return static_cast<T>(round_nearest(x));
  } else {
    return x;
  }
}
// call(one element of the type)
template <class Call>
void with_type(DType type, const Call& call) {
  if (type == DType::f32) call(float{});
  if (type == DType::bf16) call(uint16_t{});
  if (type == DType::s8) call(int8_t{});
  if (type == DType::u8) call(uint8_t{});
}
template <class Call>
void with_real_type(DType type, const Call& call) {
  if (type == DType::f32) call(float{});
  if (type == DType::bf16) call(uint16_t{});
}
// The sum is taken in float before it is rounded to the stored type.
template <class T>
void write(T* to, int64_t i, float value, bool add) {
  to[i] = as_stored<T>(add ? as_float(to[i]) + value : value);
}

}  // namespace octet::cpu
