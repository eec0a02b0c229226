// The finiteness check.
#include <atomic>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/encode_tensor.h"

namespace octet::cpu {

void CpuBackend::find_nonfinite(Tensor tensor, int32_t* found) {
  *found = 0;
  if (!is_real(tensor.dtype)) return;
  std::atomic<bool> finite = true;
  parallel_pieces(threads_, tensor.elements(), piece_elements, [&](int64_t first, int64_t count) {
    if (!passes_.all_finite[index_of(tensor.dtype)](tensor.data, Span{first, count})) finite = false;
  });
  *found = finite ? 0 : 1;
}

}  // namespace octet::cpu
