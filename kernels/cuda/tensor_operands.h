// The operands of the contraction on tensor cores: which bytes of A and B a thread copies in each step. For .cu files.
#pragma once
#include "kernels/cuda/device.h"
#include "kernels/cuda/geometry.h"
#include "kernels/cuda/tensor_tile.h"
#include "kernels/cuda/tile_pixels.h"

namespace octet::cuda {

// What one thread copies in each step: one piece of some rows of A and B. inside: bits of rows, the others are zeros.
template <int a_rows, int b_rows>
struct Pieces {
  const int8_t *a[a_rows] = {}, *b[b_rows] = {};
  unsigned a_inside = 0, b_inside = 0;
  int left = 0;  // pieces to the end of the contraction
  __device__ __forceinline__ void move_on() {
#pragma unroll
    for (int i = 0; i < a_rows; ++i) a[i] += tile_k;
#pragma unroll
    for (int i = 0; i < b_rows; ++i) b[i] += tile_k;
  }
};

// Forward and data gradient: A is gathered pixels, B weights. From: int8_t or uint8_t, the type of the pixels' codes.
template <class From>
struct GatherOperands {
  using A = From;
  using B = int8_t;
  Gather g;
  const int8_t *from, *weights;
  int lane_bytes, tap_bytes;
  int pixel_pieces;  // 16-byte pieces of one input pixel
  int pieces;        // of the whole contraction

  template <int a_rows, int b_rows>
  struct Cursor : Pieces<a_rows, b_rows> {
    int image[a_rows], top[a_rows], column[a_rows];  // the image's first pixel
    unsigned exists = 0;
    int n, step;
    int v = 0, u = 0, piece;  // tap, and piece of its pixel

    // The pieces from `first` on, of rows m, m + step ... and n, n + step ...
    __device__ __forceinline__ Cursor(const GatherOperands& o, int m, int first_n, int every, int first, int end)
        : n(first_n), step(every), piece(first) {
      this->left = end - first;
#pragma unroll
      for (int i = 0; i < a_rows; ++i) {
        const Pixel pixel = pixel_at(o.g, m + i * step);
        image[i] = pixel.image * o.g.h.from * o.g.w.from;
        top[i] = pixel.i * o.g.h.from_step;
        column[i] = pixel.j * o.g.w.from_step;
        if (pixel.inside) exists |= 1u << i;
      }
#pragma unroll
      for (int i = 0; i < b_rows; ++i)
        if (n + i * step < o.g.to_channels) this->b_inside |= 1u << i;
      find(o);
    }
    __device__ __forceinline__ void next(const GatherOperands& o) {
      this->left -= row_pieces;
      piece += row_pieces;
      if (piece < o.pixel_pieces)
        this->move_on();
      else
        find(o);
    }

   private:
    // Finds the tap of the piece, and the addresses of its pixels and weights.
    __device__ __forceinline__ void find(const GatherOperands& o) {
      for (; piece >= o.pixel_pieces; piece -= o.pixel_pieces)
        if (++u == o.g.w.taps) u = 0, ++v;
      if (this->left <= 0) return;
      const int shift_h = o.g.h.shift[v], shift_w = o.g.w.shift[u];
      const int weight = (o.g.h.kernel[v] * o.g.kernel_w + o.g.w.kernel[u]) * o.tap_bytes + piece * 16;
      this->a_inside = 0;
#pragma unroll
      for (int i = 0; i < a_rows; ++i) {
        const int h = top[i] + shift_h, w = column[i] + shift_w;
        if (h >= 0 && h < o.g.h.from && w >= 0 && w < o.g.w.from) this->a_inside |= 1u << i;
        this->a[i] = o.from + (static_cast<int64_t>(image[i] + h * o.g.w.from + w) * o.pixel_pieces + piece) * 16;
      }
      this->a_inside &= exists;
#pragma unroll
      for (int i = 0; i < b_rows; ++i)
        this->b[i] = o.weights + static_cast<int64_t>(n + i * step) * o.lane_bytes + weight;
    }
  };
};

}  // namespace octet::cuda
