// Sums in fixed point.
#include "kernels/shared/fixed_point.h"

#include "kernels/reference/backend.h"

namespace octet {

void ReferenceBackend::add_fixed(Tensor values, int64_t* sums, bool add, int32_t* beyond) {
  for (int64_t i = 0; i < values.elements(); ++i) {
    const bool fits = fits_fixed(values.f32()[i]);
    if (!fits) *beyond = 1;
    sums[i] = (add ? sums[i] : 0) + (fits ? to_fixed(values.f32()[i]) : 0);
  }
}

void ReferenceBackend::read_fixed(const int64_t* sums, Tensor values) {
  for (int64_t i = 0; i < values.elements(); ++i) values.f32()[i] = from_fixed(sums[i]);
}

}  // namespace octet
