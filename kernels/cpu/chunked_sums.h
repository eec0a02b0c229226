// Sums in FP16 (1, 6, 9), in chunks of 64 products (Wang et al., NeurIPS 2018, figure 3): the inner loop of
// conv_chunked.cpp.
#pragma once
#include "kernels/backend.h"

namespace octet::cpu {

// total[i] = the chunked sum of factors[k] * rows[k][offset + i], k = 0, 1 ... products - 1, for i < count. A null row
// is padding: it takes its place in the chunk and adds nothing.
using ChunkedSums = void (*)(const float* const* rows, int64_t offset, const float* factors, int64_t products,
                             int64_t count, float* total);

namespace scalar {
void chunked_sums(const float* const*, int64_t, const float*, int64_t, int64_t, float*);
}
namespace avx2 {
void chunked_sums(const float* const*, int64_t, const float*, int64_t, int64_t, float*);
}
namespace avx512 {
void chunked_sums(const float* const*, int64_t, const float*, int64_t, int64_t, float*);
}

inline ChunkedSums chunked_sums_of([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512_vnni) return avx512::chunked_sums;
  if (isa == Isa::avx2) return avx2::chunked_sums;
#endif
  return scalar::chunked_sums;
}

}  // namespace octet::cpu
