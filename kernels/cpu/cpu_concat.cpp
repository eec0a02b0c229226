// Concatenation along channels, one pixel after the other.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/parallel.h"
#include "kernels/shared/encode.h"

namespace octet::cpu {
namespace {

float read(const Tensor& tensor, int64_t i) {
  return tensor.dtype == DType::bf16 ? from_bf16(tensor.as<uint16_t>()[i]) : tensor.f32()[i];
}
template <class T>
T stored(float value) {
  if constexpr (sizeof(T) == 2) {
    return to_bf16(value);
  } else {
    return value;
  }
}

}  // namespace

void CpuBackend::concat_forward(std::span<const QTensor> parts, QTensor y) {
  float scale = 0;
  int64_t channels = 0;
  for (const QTensor& part : parts) {
    const Shape shape = part.values.shape;
    REQUIRE(part.real() == y.real() && part.values.dtype == y.values.dtype && shape.n == y.values.shape.n &&
                shape.h == y.values.shape.h && shape.w == y.values.shape.w,
            "concatenate images of one size and one encoding", "a part does not fit the concatenation");
    if (!part.real()) scale = std::max(scale, *part.scale);
    channels += shape.c;
  }
  REQUIRE(channels == y.values.shape.c, "give an output of as many channels", "the parts have ", channels,
          " channels, the concatenation ", y.values.shape.c);
  const int64_t element = static_cast<int64_t>(size_of(y.values.dtype));
  parallel_for(options_.threads, y.values.shape.pixels(), [&](int64_t pixel) {
    int64_t first = pixel * channels;
    for (const QTensor& part : parts) {
      const int64_t own = part.values.shape.c;
      const char* const from = part.values.as<char>() + pixel * own * element;
      if (part.real() || *part.scale == scale) {
        memcpy(y.values.as<char>() + first * element, from, static_cast<size_t>(own * element));
      } else {
        const float ratio = *part.scale / scale;
        const auto rescale = [&]<class Code>(const Code* codes, Code* out) {
          for (int64_t c = 0; c < own; ++c)
            out[c] = static_cast<Code>(round_nearest(static_cast<float>(codes[c]) * ratio));
        };
        if (y.values.dtype == DType::u8)
          rescale(part.values.u8() + pixel * own, y.values.u8() + first);
        else
          rescale(part.values.s8() + pixel * own, y.values.s8() + first);
      }
      first += own;
    }
  });
  if (!y.real()) *y.scale = scale;
}

void CpuBackend::concat_backward(Tensor dy, std::span<const Into> parts) {
  parallel_for(options_.threads, dy.shape.pixels(), [&](int64_t pixel) {
    int64_t first = pixel * dy.shape.c;
    for (const Into& part : parts) {
      const int64_t own = part.tensor.shape.c;
      const auto deliver = [&](auto* to) {
        using T = std::remove_pointer_t<decltype(to)>;
        for (int64_t c = 0; c < own; ++c) {
          const float value = read(dy, first + c);
          to[c] = stored<T>(part.add ? read(part.tensor, pixel * own + c) + value : value);
        }
      };
      if (part && part.tensor.dtype == DType::bf16) deliver(part.tensor.as<uint16_t>() + pixel * own);
      if (part && part.tensor.dtype == DType::f32) deliver(part.tensor.f32() + pixel * own);
      first += own;
    }
  });
}

}  // namespace octet::cpu
