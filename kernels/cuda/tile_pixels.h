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
// One of all pixels of the gather, in order.
__device__ __forceinline__ Pixel pixel_at(const Gather& g, int index) {
  Pixel pixel;
  pixel.image = quotient(index, g.image_pixels);
  const int rest = index - pixel.image * g.image_pixels.value;
  pixel.i = quotient(rest, g.row_pixels);
  pixel.j = rest - pixel.i * g.row_pixels.value;
  pixel.inside = index < g.pixels;
  return pixel;
}
__device__ __forceinline__ Pixel pixel_of(const Gather& g, int chunk, int row) {
  return row < chunk_count(g, chunk) ? pixel_at(g, chunk_first(g, chunk) + row) : Pixel{};
}
// Element 0 of the output pixel.
__device__ __forceinline__ int64_t output_offset(const Gather& g, const Pixel& p) {
  const int row = g.h.first + p.i * g.h.step, column = g.w.first + p.j * g.w.step;
  return ((static_cast<int64_t>(p.image) * g.h.to + row) * g.w.to + column) * g.to_channels;
}

// Writes the moments of channel n over one chunk, in row order: the first value, the sum and the sum of squares of the
// differences from it, minimum, maximum. value_of(row) is an output.
template <class ValueOf>
__device__ __forceinline__ void write_chunk_moments(const Gather& g, int chunk, int n, float* moments,
                                                    const ValueOf& value_of) {
  const float first = value_of(0);
  float sum = 0, square = 0, low = __uint_as_float(0x7F800000u), high = -low;
  const int count = chunk_count(g, chunk);
#pragma unroll 8  // several values are read before the sums need them
  for (int row = 0; row < count; ++row) {
    const float y = value_of(row), difference = y - first;
    sum += difference;
    square += difference * difference;
    low = fminf(low, y);  // a NaN is neither
    high = fmaxf(high, y);
  }
  const int64_t step = static_cast<int64_t>(g.chunks) * g.to_channels;
  float* const to = moments + static_cast<int64_t>(chunk) * g.to_channels + n;
  to[0] = first;
  to[step] = sum;
  to[2 * step] = square;
  to[3 * step] = low;
  to[4 * step] = high;
}

}  // namespace octet::cuda
