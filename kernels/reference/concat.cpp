// Concatenation.
#include <algorithm>

#include "kernels/reference/backend.h"
#include "kernels/reference/element.h"

namespace octet {
using namespace reference;

void ReferenceBackend::compute(const ConcatForwardCall& call) {
  const auto& [parts, y] = call;
  float scale = 0;
  for (const QTensor& part : parts)
    if (!part.real()) scale = std::max(scale, *part.scale);
  int64_t first = 0;
  for (const QTensor& part : parts) {
    const int64_t own = part.values.shape.c;
    const float ratio = part.real() || *part.scale == scale ? 1.0f : *part.scale / scale;
    for (int64_t i = 0; i < part.values.elements(); ++i) {
      write_code_or_real(y.values, i / own * y.values.shape.c + first + i % own, read(part.values, i) * ratio);
    }
    first += own;
  }
  if (!y.real()) *y.scale = scale;
}

void ReferenceBackend::compute(const ConcatBackwardCall& call) {
  const auto& [dy, parts] = call;
  int64_t first = 0;
  for (const Into& part : parts) {
    const int64_t own = part.tensor.shape.c;
    for (int64_t i = 0; part && i < part.tensor.elements(); ++i) {
      write(part, i, read(dy, i / own * dy.shape.c + first + i % own));
    }
    first += own;
  }
}

}  // namespace octet
