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
        const int row = m + i * step;
        const Pixel pixel = pixel_of(o.g, row / chunk_pixels, row % chunk_pixels);
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

// Weight gradient: A is channel-major grad_output, B channel-major inputs. X: int8_t or uint8_t, the type of the
// inputs' codes.
template <class X>
struct WeightOperands {
  using A = int8_t;
  using B = X;
  WeightGather g;
  const int8_t *x, *dy;
  int image_pieces;  // 16-byte pieces of one pixel's images
  int pieces;        // of the whole contraction
  int outputs;       // taps * input channels

  template <int a_rows, int b_rows>
  struct Cursor : Pieces<a_rows, b_rows> {
    const int8_t* plane[b_rows];
    int shift_h[b_rows], shift_w[b_rows];
    unsigned exists = 0;
    int i, j, piece;  // output pixel, and piece of its images

    __device__ __forceinline__ Cursor(const WeightOperands& o, int m, int n, int step, int first, int end) {
      const int pixel = first / o.image_pieces;
      piece = first - pixel * o.image_pieces;
      i = pixel / o.g.y_w;
      j = pixel - i * o.g.y_w;
      this->left = end - first;
#pragma unroll
      for (int k = 0; k < a_rows; ++k) {
        const int row = m + k * step;
        if (row < o.g.y_channels) this->a_inside |= 1u << k;
        this->a[k] = o.dy + (static_cast<int64_t>(row) * o.pieces + first) * 16;
      }
#pragma unroll
      for (int k = 0; k < b_rows; ++k) {
        const int column = n + k * step, tap = column / o.g.x_channels, channel = column - tap * o.g.x_channels;
        const int v = tap / o.g.kernel_w, u = tap - v * o.g.kernel_w;
        plane[k] = o.x + static_cast<int64_t>(channel) * o.g.x_h * o.g.x_w * o.image_pieces * 16;
        shift_h[k] = v * o.g.dilation_h - o.g.pad_h;
        shift_w[k] = u * o.g.dilation_w - o.g.pad_w;
        if (column < o.outputs) exists |= 1u << k;
      }
      find(o);
    }
    __device__ __forceinline__ void next(const WeightOperands& o) {
      this->left -= row_pieces;
      piece += row_pieces;
      this->move_on();
      if (piece >= o.image_pieces) find(o);
    }

   private:
    // Finds the pixel of the piece, and the addresses of the inputs that it meets.
    __device__ __forceinline__ void find(const WeightOperands& o) {
      for (; piece >= o.image_pieces; piece -= o.image_pieces)
        if (++j == o.g.y_w) j = 0, ++i;
      this->b_inside = 0;
#pragma unroll
      for (int k = 0; k < b_rows; ++k) {
        const int h = i * o.g.stride_h + shift_h[k], w = j * o.g.stride_w + shift_w[k];
        if (h >= 0 && h < o.g.x_h && w >= 0 && w < o.g.x_w) this->b_inside |= 1u << k;
        this->b[k] = plane[k] + static_cast<int64_t>(h * o.g.x_w + w) * (o.image_pieces * 16) + piece * 16;
      }
      this->b_inside &= exists;
    }
  };
};

}  // namespace octet::cuda
