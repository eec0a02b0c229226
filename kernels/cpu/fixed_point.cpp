// Sums in fixed point: the reference's, on threads.
#include <atomic>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/encode_tensor.h"

namespace octet::cpu {

void CpuBackend::add_fixed(Tensor values, int64_t* sums, bool add, int32_t* beyond) {
  std::atomic<bool> fits = true;
  parallel_pieces(threads_, values.elements(), piece_elements, [&](int64_t first, int64_t count) {
    int32_t outside = 0;
    ReferenceBackend::add_fixed({values.f32() + first, {1, 1, 1, count}}, sums + first, add, &outside);
    if (outside != 0) fits = false;
  });
  if (!fits) *beyond = 1;
}

void CpuBackend::read_fixed(const int64_t* sums, Tensor values) {
  parallel_pieces(threads_, values.elements(), piece_elements, [&](int64_t first, int64_t count) {
    ReferenceBackend::read_fixed(sums + first, {values.f32() + first, {1, 1, 1, count}});
  });
}

}  // namespace octet::cpu
