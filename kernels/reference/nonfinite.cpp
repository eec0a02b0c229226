// The finiteness check.
#include <cmath>

#include "kernels/reference/backend.h"
#include "kernels/reference/element.h"

namespace octet {

void ReferenceBackend::find_nonfinite(Tensor tensor, int32_t* found) {
  *found = 0;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    if (!std::isfinite(reference::read(tensor, i))) *found = 1;
  }
}

}  // namespace octet
