// Dropout: what is dropped follows from the key and the global element alone.
#include "kernels/reference/backend.h"
#include "kernels/reference/element.h"
#include "kernels/shared/checks.h"

namespace octet {
namespace {
using namespace reference;

bool kept(float rate, const RngKey& key, int64_t element) {
  return static_cast<float>(random_bits16(key, static_cast<uint64_t>(element))) >= rate * 65536.0f;
}
}  // namespace

void ReferenceBackend::compute(const DropoutForwardCall& call) {
  const auto& [x, rate, key, y] = call;
  const float growth = 1 / (1 - rate);
  for (int64_t i = 0; i < x.values.elements(); ++i) {
    const bool keep = kept(rate, key, i);
    if (x.real()) {
      write(y.values, i, keep ? read(x.values, i) * growth : 0);
    } else {
      y.values.s8()[i] = keep ? x.values.s8()[i] : int8_t{0};
    }
  }
  if (!x.real()) *y.scale = *x.scale * growth;
}

void ReferenceBackend::compute(const DropoutBackwardCall& call) {
  const auto& [dy, rate, key, dx] = call;
  const float growth = 1 / (1 - rate);
  for (int64_t i = 0; i < dy.elements(); ++i) write(dx, i, kept(rate, key, i) ? read(dy, i) * growth : 0);
}

}  // namespace octet
