// Concatenation along channels, one pixel after the other.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/elements.h"
#include "kernels/cpu/parallel.h"
#include "kernels/shared/encode.h"

namespace octet::cpu {
void CpuBackend::compute(const ConcatForwardCall& call) {
  float scale = 0;
  for (const QTensor& part : call.parts)
    if (!part.real()) scale = std::max(scale, *part.scale);
  const int64_t element = static_cast<int64_t>(size_of(call.y.values.dtype));
  parallel_for(threads_, call.y.values.shape.pixels(), [&](int64_t pixel) {
    int64_t first = pixel * call.y.values.shape.c;
    for (const QTensor& part : call.parts) {
      const int64_t own = part.values.shape.c;
      const char* const from = part.values.as<char>() + pixel * own * element;
      if (part.real() || *part.scale == scale) {
        memcpy(call.y.values.as<char>() + first * element, from, static_cast<size_t>(own * element));
      } else {
        const float ratio = *part.scale / scale;
        const auto rescale = [&]<class Code>(const Code* codes, Code* out) {
          for (int64_t c = 0; c < own; ++c)
            out[c] = static_cast<Code>(round_nearest(static_cast<float>(codes[c]) * ratio));
        };
        if (call.y.values.dtype == DType::u8)
          rescale(part.values.u8() + pixel * own, call.y.values.u8() + first);
        else
          rescale(part.values.s8() + pixel * own, call.y.values.s8() + first);
      }
      first += own;
    }
  });
  if (!call.y.real()) *call.y.scale = scale;
}

void CpuBackend::compute(const ConcatBackwardCall& call) {
  parallel_for(threads_, call.dy.shape.pixels(), [&](int64_t pixel) {
    int64_t first = pixel * call.dy.shape.c;
    for (const Into& part : call.parts) {
      const int64_t own = part.tensor.shape.c;
      if (part)
        with_real_type(call.dy.dtype, [&]<class G>(G) {
          with_real_type(part.tensor.dtype, [&]<class D>(D) {
            const G* const from = call.dy.as<G>() + first;
            for (int64_t c = 0; c < own; ++c) write(part.tensor.as<D>() + pixel * own, c, as_float(from[c]), part.add);
          });
        });
      first += own;
    }
  });
}

}  // namespace octet::cpu
