// The pixels of a chunk. For .cu files.
#pragma once
#include <cmath>

#include "kernels/cuda/geometry.h"

namespace octet::cuda {

inline constexpr int chunk_pixels = 64;  // moment_pixels of shared/sums.h

struct Pixel {
  int image = 0, i = 0, j = 0;  // of a gather's phase
  bool inside = false;
};

__device__ __forceinline__ int chunk_first(const Gather& g, int chunk) {
  const int item = quotient(chunk, g.chunks_per_item);
  return item * g.item_pixels + (chunk - item * g.chunks_per_item.value) * chunk_pixels;
}
// How many pixels the chunk has: 64, or fewer at the end of an item.
__device__ __forceinline__ int chunk_count(const Gather& g, int chunk) {
  if (chunk >= g.chunks) return 0;
  const int item_end = (quotient(chunk, g.chunks_per_item) + 1) * g.item_pixels;
  const int left = (item_end < g.pixels ? item_end : g.pixels) - chunk_first(g, chunk);
  return left < chunk_pixels ? left : chunk_pixels;
}
__device__ __forceinline__ Pixel pixel_of(const Gather& g, int chunk, int row) {
  Pixel pixel;
  if (row >= chunk_count(g, chunk)) return pixel;
  const int index = chunk_first(g, chunk) + row;
  pixel.image = quotient(index, g.image_pixels);
  const int rest = index - pixel.image * g.image_pixels.value;
  pixel.i = quotient(rest, g.row_pixels);
  pixel.j = rest - pixel.i * g.row_pixels.value;
  pixel.inside = true;
  return pixel;
}
// Element 0 of the output pixel.
__device__ __forceinline__ int64_t output_offset(const Gather& g, const Pixel& p) {
  const int row = g.h.first + p.i * g.h.step, column = g.w.first + p.j * g.w.step;
  return ((static_cast<int64_t>(p.image) * g.h.to + row) * g.w.to + column) * g.to_channels;
}

// Writes the moments of channel n over one chunk, in row order: the first value, the sum and the sum of squares of the
// differences from it, minimum, maximum. value_of(row) is an output. parts: 1, or 2 where another thread computes the
// other part, 1 the squares and 0 the rest.
template <int parts, class ValueOf>
__device__ __forceinline__ void write_chunk_moments(const Gather& g, int chunk, int n, int part, float* moments,
                                                    const ValueOf& value_of) {
  const float first = value_of(0);
  float sum = 0, square = 0, low = __uint_as_float(0x7F800000u), high = -low;
  const int count = chunk_count(g, chunk);
  const int64_t step = static_cast<int64_t>(g.chunks) * g.to_channels;
  float* const to = moments + static_cast<int64_t>(chunk) * g.to_channels + n;
  if (parts == 1 || part == 1) {
#pragma unroll 8  // several values are read before the sums need them
    for (int row = 0; row < count; ++row) {
      const float difference = value_of(row) - first;
      square += difference * difference;
    }
    to[2 * step] = square;
  }
  if (parts == 2 && part == 1) return;
#pragma unroll 8
  for (int row = 0; row < count; ++row) {
    const float y = value_of(row);
    sum += y - first;
    low = fminf(low, y);  // a NaN is neither
    high = fmaxf(high, y);
  }
  to[0] = first;
  to[step] = sum;
  to[3 * step] = low;
  to[4 * step] = high;
}

}  // namespace octet::cuda
