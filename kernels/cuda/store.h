// Reading and writing f32, bf16 and codes, one element or up to eight neighbours at a time. For .cu files.
#pragma once
#include <algorithm>
#include <type_traits>

#include "kernels/base/tensor.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/kernel_arguments.h"
#include "kernels/shared/encode.h"

namespace octet::cuda {

// The type is known when the kernel runs: all threads take the same branch.
__device__ __forceinline__ float read_value(const void* from, DType type, int64_t i) {
  if (type == DType::f32) return static_cast<const float*>(from)[i];
  if (type == DType::bf16) return from_bf16(static_cast<const uint16_t*>(from)[i]);
  if (type == DType::u8) return static_cast<const uint8_t*>(from)[i];
  return static_cast<const int8_t*>(from)[i];
}
__device__ __forceinline__ void write_code(void* to, int64_t i, int code) {
  static_cast<uint8_t*>(to)[i] = static_cast<uint8_t>(code);
}
__device__ __forceinline__ void write_real(const RealOutput& to, int64_t i, float value) {
  if (to.bf16) {
    uint16_t* const at = static_cast<uint16_t*>(to.data) + i;
    *at = to_bf16(to.add ? from_bf16(*at) + value : value);
  } else {
    float* const at = static_cast<float*>(to.data) + i;
    *at = to.add ? *at + value : value;
  }
}
// A value in the units of a tensor of that type: real numbers as they are, codes rounded to nearest.
__device__ __forceinline__ void write_value(void* to, DType type, int64_t i, float value) {
  if (is_real(type))
    write_real({to, type == DType::bf16}, i, value);
  else
    write_code(to, i, static_cast<int>(round_nearest(value)));
}

// One element, or 2, 4 or 8 neighbours, the first at a multiple of their number.
template <int width>
using Width = std::integral_constant<int, width>;
template <class Element, int width>
struct alignas(sizeof(Element) * width) Some {
  Element at[width];
};
template <int width>
using Values = Some<float, width>;

// Memory that no kernel writes while this one runs, so that the compiler may read it ahead of any store.
template <class Element, int width>
__device__ __forceinline__ Some<Element, width> read_some(Width<width>, const Element* from) {
  constexpr int bytes = sizeof(Element) * width;
  using Word = std::conditional_t<
      bytes >= 16, Sixteen,
      std::conditional_t<bytes == 8, uint64_t,
                         std::conditional_t<bytes == 4, uint32_t, std::conditional_t<bytes == 2, uint16_t, uint8_t>>>>;
  Some<Element, width> some;
#pragma unroll
  for (int at = 0; at < bytes; at += static_cast<int>(sizeof(Word))) {
    const Word word = read_only(reinterpret_cast<const Word*>(reinterpret_cast<const char*>(from) + at));
    memcpy(reinterpret_cast<char*>(&some) + at, &word, sizeof word);
  }
  return some;
}
template <DType type>
using Stored =
    std::conditional_t<type == DType::f32, float, std::conditional_t<type == DType::bf16, uint16_t, uint8_t>>;
// Neighbours of one type, in words where they fill words: the compiler takes arrays of smaller elements apart.
template <DType type, int width>
using Neighbours = std::conditional_t<
    size_of(type) * width % 4 == 0,
    Some<std::conditional_t<type == DType::f32, float, uint32_t>, static_cast<int>(size_of(type)) * width / 4>,
    Some<Stored<type>, width>>;
template <DType type, int width>
__device__ __forceinline__ Neighbours<type, width> read_neighbours(Width<width>, const void* from, int64_t i) {
  using Element = std::decay_t<decltype(Neighbours<type, width>{}.at[0])>;
  return read_some(Width<sizeof(Neighbours<type, width>) / sizeof(Element)>{},
                   reinterpret_cast<const Element*>(static_cast<const Stored<type>*>(from) + i));
}
// As numbers. are_signed: of codes. A byte in the lowest bits of 2^23 is a float that exceeds 2^23 by the byte, so no
// slow conversion is needed.
template <DType type, int width>
__device__ __forceinline__ Values<width> values_of(Width<width>, const Neighbours<type, width>& stored,
                                                   bool are_signed = true) {
  constexpr bool words = size_of(type) * width % 4 == 0;
  const uint32_t flip = are_signed ? 0x80808080u : 0u;
  const float zero = are_signed ? 8388736.0f : 8388608.0f;  // what code 0 comes out as
  Values<width> values;
#pragma unroll
  for (int e = 0; e < width; ++e) {
    if constexpr (type == DType::f32)
      values.at[e] = stored.at[e];
    else if constexpr (type == DType::bf16 && words)
      values.at[e] = float_of(e % 2 == 0 ? stored.at[e / 2] << 16 : stored.at[e / 2] & 0xFFFF0000u);
    else if constexpr (type == DType::bf16)
      values.at[e] = from_bf16(stored.at[e]);
    else
      values.at[e] = float_of(chosen_bytes(stored.at[words ? e / 4 : e] ^ flip, 0x4B000000u,
                                           0x7440u | static_cast<unsigned>(words ? e % 4 : 0))) -
                     zero;
  }
  return values;
}
// The numbers whose bit is set, the first in the lowest; zero in place of the others.
template <DType type, int width>
__device__ __forceinline__ Neighbours<type, width> kept_where(Width<width>, uint32_t bits,
                                                              Neighbours<type, width> stored) {
  if constexpr (type == DType::bf16 && width == 8) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {  // each of four bits becomes the sign of a byte, and a sign two bytes
      const uint32_t signs = (k < 2 ? bits & 0xFu : bits >> 4 & 0xFu) * 0x10204080u;
      stored.at[k] &= chosen_signs(signs, k % 2 == 0 ? 0x9988 : 0xBBAA);
    }
  } else if constexpr (type == DType::bf16 && width == 2) {
    stored.at[0] &= ((bits & 1u) != 0 ? 0xFFFFu : 0u) | ((bits & 2u) != 0 ? 0xFFFF0000u : 0u);
  } else {
    static_assert(type == DType::f32 || width == 1);
#pragma unroll
    for (int e = 0; e < width; ++e)
      if ((bits >> e & 1u) == 0) stored.at[e] = 0;
  }
  return stored;
}
// read_some() of memory that this kernel writes.
template <class Element, int width>
__device__ __forceinline__ Some<Element, width> reread_some(Width<width>, const Element* from) {
  constexpr int bytes = sizeof(Element) * width;
  if constexpr (bytes < 16) {
    return *reinterpret_cast<const Some<Element, width>*>(from);
  } else {
    Some<Element, width> some;
#pragma unroll
    for (int at = 0; at < bytes; at += 16) {
      const Sixteen word = read_sixteen(reinterpret_cast<const char*>(from) + at);
      memcpy(reinterpret_cast<char*>(&some) + at, &word, sizeof word);
    }
    return some;
  }
}
template <class Element, int width>
__device__ __forceinline__ void write_some(Element* to, const Some<Element, width>& some) {
  constexpr int bytes = sizeof(Element) * width;
  if constexpr (bytes >= 16) {
#pragma unroll
    for (int at = 0; at < bytes; at += 16) {
      Sixteen word;
      memcpy(&word, reinterpret_cast<const char*>(&some) + at, sizeof word);
      write_sixteen(reinterpret_cast<char*>(to) + at, word);
    }
  } else if constexpr (bytes == 8) {
    uint64_t word;
    memcpy(&word, &some, sizeof word);
    *reinterpret_cast<uint64_t*>(to) = word;
  } else {
    *reinterpret_cast<Some<Element, width>*>(to) = some;
  }
}
template <DType type, int width>
__device__ __forceinline__ void write_neighbours(Width<width>, void* to, int64_t i,
                                                 const Neighbours<type, width>& stored) {
  using Element = std::decay_t<decltype(stored.at[0])>;
  write_some(reinterpret_cast<std::remove_const_t<Element>*>(static_cast<Stored<type>*>(to) + i), stored);
}
// write_real() of neighbours.
template <int width>
__device__ __forceinline__ void write_reals(Width<width> some, const RealOutput& to, int64_t i, Values<width> values) {
  if (to.bf16) {
    uint16_t* const at = static_cast<uint16_t*>(to.data) + i;
    Some<uint16_t, width> stored = {};
    if (to.add) {
      stored = reread_some(some, at);
#pragma unroll
      for (int e = 0; e < width; ++e) values.at[e] = from_bf16(stored.at[e]) + values.at[e];
    }
    if constexpr (width == 1) stored.at[0] = to_bf16(values.at[0]);
#pragma unroll
    for (int e = 0; e + 1 < width; e += 2) {
      const uint32_t pair = bf16_pair(values.at[e], values.at[e + 1]);
      memcpy(&stored.at[e], &pair, sizeof pair);
    }
    write_some(at, stored);
  } else {
    float* const at = static_cast<float*>(to.data) + i;
    const Values<width> before = to.add ? reread_some(some, at) : Values<width>{};
#pragma unroll
    for (int e = 0; e < width; ++e) values.at[e] = to.add ? before.at[e] + values.at[e] : values.at[e];
    write_some(at, values);
  }
}

// Whether `width` neighbours can be read and written at once at this address; null is aligned.
inline bool neighbours_align(int width, const void* at, DType type) {
  const size_t bytes = static_cast<size_t>(width) * static_cast<size_t>(size_of(type));
  return reinterpret_cast<uintptr_t>(at) % std::min(bytes, size_t{16}) == 0;
}
inline bool neighbours_align(int width, const RealOutput& to) {
  return neighbours_align(width, to.data, to.bf16 ? DType::bf16 : DType::f32);
}

}  // namespace octet::cuda
