// Visits the rows of a table in order, as sums of floating-point numbers require: one thread for each column, while the
// other threads of the block fetch the next rows. For .cu files.
#pragma once
#include "kernels/cuda/device.h"

namespace octet::cuda {

inline constexpr int order_columns = 8, order_threads = 256;  // of a block

// fetch(row) -> Row, with the rows shared among the block's threads; then visit(Row) in the first order_columns
// threads, one for each column. batch: rows fetched at once.
template <class Row, int batch, class Fetch, class Visit>
__device__ __forceinline__ void in_order(int64_t rows, const Fetch& fetch, const Visit& visit) {
  constexpr int together = order_threads / order_columns;
  static_assert(batch % together == 0);
  __shared__ Row staged[2][batch][order_columns];
  const int column = static_cast<int>(threadIdx.x) % order_columns, own = static_cast<int>(threadIdx.x) / order_columns;
  Row next[batch / together];
  const auto fetch_batch = [&](int64_t first) {
#pragma unroll
    for (int i = 0; i < batch / together; ++i) {
      const int64_t row = first + own + i * together;
      if (row < rows) next[i] = fetch(row);
    }
  };
  fetch_batch(0);
  int stage = 0;
  for (int64_t first = 0; first < rows; first += batch, stage ^= 1) {
#pragma unroll
    for (int i = 0; i < batch / together; ++i) staged[stage][own + i * together][column] = next[i];
    __syncthreads();
    fetch_batch(first + batch);
    if (own != 0) continue;
    const int count = rows - first < batch ? static_cast<int>(rows - first) : batch;
#pragma unroll 8  // several rows are read before the sums need them
    for (int row = 0; row < count; ++row) visit(staged[stage][row][column]);
  }
}

}  // namespace octet::cuda
