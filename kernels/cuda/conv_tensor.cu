// Convolutions of codes on tensor cores: one contraction, D[m][n] = sum over k of A[m][k] B[n][k], with both operands'
// k contiguous in pieces of 16 bytes. What A and B are is in Operands: gathered pixels and weights (forward, data
// gradient), or channel-major errors and inputs (weight gradient). Sums are exact int32.
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/store.h"
#include "kernels/cuda/tile_pixels.h"

namespace octet::cuda {
namespace {

constexpr int tile_m = 128, tile_k = 64;  // k in bytes
constexpr int stages = 3, row_pieces = tile_k / 16;
constexpr int64_t no_output = -1;
// Blocks of so many threads that a processor should hold at once; Turing's copies go through registers.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int blocks_of_256 = 1;
#else
constexpr int blocks_of_256 = 2;
#endif

// Tiles of 128 x 64 or 128 x 128; a warp makes 64 x 32. The wider ones read less: each of their rows serves twice as
// many products.
template <int tile_n>
struct Tile {
  static constexpr int threads = 2 * tile_n;
  static constexpr int rows = threads / row_pieces;  // copied at once, each thread one piece of each
  static constexpr int a_rows = tile_m / rows, b_rows = tile_n / rows;
  static constexpr int stage_bytes = (tile_m + tile_n) * tile_k;
  static constexpr int bytes = stages * stage_bytes;
  // Floats between rows of the finished tile, which is written by chunks.
  static constexpr int value_pitch = tile_n + 8;
  static constexpr int value_bytes = chunk_pixels * value_pitch * 4;
  static_assert(tile_m == 2 * chunk_pixels && value_bytes + tile_m * 8 <= bytes);
};

// Eight rows that one matrix load reads lie in eight different groups of banks.
__device__ __forceinline__ int swizzled(int row, int piece) { return row * tile_k + ((piece ^ ((row >> 1) & 3)) << 4); }

// What one thread copies, step by step: a piece of some rows of A and B. inside: bits of rows, the others are zeros.
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

// From: int8_t or uint8_t, the type of the codes that are gathered.
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
    // The tap that the piece lies in, and where its pixels and weights are.
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

// X: int8_t or uint8_t, the type of the inputs' codes.
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
    int i, j, piece;  // error pixel, and piece of its images

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
    // The pixel that the piece lies in, and the inputs that its error meets.
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

struct Sums {  // of one thread: 4 x 4 blocks of 16 x 8
  int32_t at[4][4][4] = {};
};

// A warp's part of a tile.
template <int tile_n>
struct Part {
  int m, n;
  __device__ __forceinline__ Part() {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    m = warp / (tile_n / 32) * 64;
    n = warp % (tile_n / 32) * 32;
  }
};

// The contraction over pieces [first, end) of one tile, first row and column given.
template <int tile_n, class Operands>
__device__ __forceinline__ void contract(const Operands& operands, int first_m, int first_n, int first, int end,
                                         int8_t* shared, Sums& sums) {
  using T = Tile<tile_n>;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int column = thread % row_pieces, row = thread / row_pieces;  // of what this thread copies
  typename Operands::template Cursor<T::a_rows, T::b_rows> cursor(operands, first_m + row, first_n + row, T::rows,
                                                                  first + column, end);
  const int steps = (end - first + row_pieces - 1) / row_pieces;
  // Rows that one thread copies lie a multiple of eight apart, so that they are swizzled alike.
  static_assert(T::rows % 8 == 0);
  int8_t* const own = shared + swizzled(row, column);

  int filled = 0;  // stage that the next copies go to
  const auto fetch = [&](int step) {
    if (step < steps) {
      int8_t* const a = own + filled * T::stage_bytes;
      int8_t* const b = a + tile_m * tile_k;
      const bool exists = cursor.left > 0;
#pragma unroll
      for (int i = 0; i < T::a_rows; ++i) {
        const bool inside = exists && (cursor.a_inside >> i & 1) != 0;
        copy_async(a + i * T::rows * tile_k, cursor.a[i], inside);
      }
#pragma unroll
      for (int i = 0; i < T::b_rows; ++i) {
        const bool inside = exists && (cursor.b_inside >> i & 1) != 0;
        copy_async(b + i * T::rows * tile_k, cursor.b[i], inside);
      }
      cursor.next(operands);
      filled = filled + 1 == stages ? 0 : filled + 1;
    }
    commit_copies();
  };

#pragma unroll
  for (int step = 0; step < stages - 1; ++step) fetch(step);
  const Part<tile_n> part;
  // Of the matrix loads of A: rows 0-7 and 8-15 of the first 16 bytes, then of the next; of B: columns 0-7 in two
  // pieces, then 8-15. Sixteen rows further everything is swizzled alike.
  const int a_row = part.m + lane % 16, b_row = part.n + lane % 8 + lane / 16 * 8;
  int stage = 0;
  for (int step = 0; step < steps; ++step) {
    wait_copies<stages - 2>();
    __syncthreads();
    fetch(step + stages - 1);
    const int8_t* const a = shared + stage * T::stage_bytes;
    const int8_t* const b = a + tile_m * tile_k;
    stage = stage + 1 == stages ? 0 : stage + 1;
#pragma unroll
    for (int half = 0; half < tile_k / 32; ++half) {
      const int8_t* const a_at = a + swizzled(a_row, half * 2 + lane / 16);
      const int8_t* const b_at = b + swizzled(b_row, half * 2 + lane / 8 % 2);
      uint32_t a_block[4][4], b_block[2][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) load_matrices(a_block[i], a_at + i * 16 * tile_k);
#pragma unroll
      for (int j = 0; j < 2; ++j) load_matrices(b_block[j], b_at + j * 16 * tile_k);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          multiply_add<typename Operands::A, typename Operands::B>(sums.at[i][j], a_block[i], b_block[j / 2][j % 2 * 2],
                                                                   b_block[j / 2][j % 2 * 2 + 1]);
    }
  }
  wait_copies<0>();
  __syncthreads();
}

// visit(row, j, column, two sums) for this thread's sums, rows and columns of the tile; j: which of the thread's four
// pairs of columns.
template <int tile_n, class Visit>
__device__ __forceinline__ void for_each_pair(const Sums& sums, const Visit& visit) {
  const Part<tile_n> part;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        visit(part.m + i * 16 + lane / 4 + half * 8, j, part.n + j * 8 + lane % 4 * 2, sums.at[i][j][2 * half],
              sums.at[i][j][2 * half + 1]);
}

// Writes one chunk of a finished tile; columns: those that exist. paired: two neighbours may be written at once.
template <int tile_n>
__device__ __forceinline__ void write_values(const Output& output, bool paired, const float* values,
                                             const int64_t* offsets, int columns) {
  using T = Tile<tile_n>;
  const int thread = static_cast<int>(threadIdx.x);
  if (paired) {
    constexpr int pairs = tile_n / 2;
    const int column = thread % pairs * 2;
    if (column >= columns) return;
    for (int row = thread / pairs; row < chunk_pixels; row += T::threads / pairs)
      if (offsets[row] != no_output)
        write_reals(Width<2>{}, output.to, output.bf16, output.add, offsets[row] + column,
                    *reinterpret_cast<const Values<2>*>(values + row * T::value_pitch + column));
    return;
  }
  const int column = thread % tile_n;
  if (column >= columns) return;
  for (int row = thread / tile_n; row < chunk_pixels; row += T::threads / tile_n)
    if (offsets[row] != no_output)
      write_real(output.to, output.bf16, output.add, offsets[row] + column, values[row * T::value_pitch + column]);
}

template <int tile_n, class From>
__global__ void __launch_bounds__(Tile<tile_n>::threads, tile_n == 64 ? 3 : blocks_of_256)
    gather_kernel(const __grid_constant__ GatherOperands<From> operands, const __grid_constant__ Output output,
                  bool paired) {
  using T = Tile<tile_n>;
  alignas(128) __shared__ int8_t shared[T::bytes];
  const Gather& g = operands.g;
  // Neighbouring blocks share their pixels, which the second-level cache then reads once; it holds all weights.
  const int tiles = (g.to_channels + tile_n - 1) / tile_n, block = static_cast<int>(blockIdx.x);
  const int first_m = block / tiles * tile_m, first_n = block % tiles * tile_n;
  Sums sums;
  contract<tile_n>(operands, first_m, first_n, 0, operands.pieces, shared, sums);

  float* const values = reinterpret_cast<float*>(shared);
  int64_t* const offsets = reinterpret_cast<int64_t*>(shared + T::value_bytes);  // of the tile's rows
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < tile_m) {
    const Pixel pixel = pixel_of(g, first_m / chunk_pixels + thread / chunk_pixels, thread % chunk_pixels);
    offsets[thread] = pixel.inside ? output_offset(g, pixel) + first_n : no_output;
  }
  const Part<tile_n> part;
  const float factor = *output.scale * *output.weight_scale;
  const int columns = g.to_channels - first_n < tile_n ? g.to_channels - first_n : tile_n;
  for (int half = 0; half < tile_m / chunk_pixels; ++half) {
    if (part.m == half * chunk_pixels)
      for_each_pair<tile_n>(sums, [&](int row, int j, int column, int32_t first, int32_t second) {
        *reinterpret_cast<Values<2>*>(values + (row - part.m) * T::value_pitch + column) = {
            static_cast<float>(first) * factor, static_cast<float>(second) * factor};
      });
    __syncthreads();
    const int chunk = first_m / chunk_pixels + half;
    if (output.moments != nullptr && chunk < g.chunks && thread < columns)
      write_chunk_moments(g, chunk, first_n + thread, output.moments,
                          [&](int row) { return values[row * T::value_pitch + thread]; });
    write_values<tile_n>(output, paired, values, offsets + half * chunk_pixels, columns);
    __syncthreads();
  }
}

template <int tile_n, class X>
__global__ void __launch_bounds__(Tile<tile_n>::threads, tile_n == 64 ? 3 : blocks_of_256)
    weight_kernel(const __grid_constant__ WeightOperands<X> operands, int split_pieces, int32_t* partial) {
  alignas(128) __shared__ int8_t shared[Tile<tile_n>::bytes];
  const int first_m = static_cast<int>(blockIdx.x) * tile_m, first_n = static_cast<int>(blockIdx.y) * tile_n;
  const int first = static_cast<int>(blockIdx.z) * split_pieces;
  const int end = first + split_pieces < operands.pieces ? first + split_pieces : operands.pieces;
  Sums sums;
  contract<tile_n>(operands, first_m, first_n, first, end, shared, sums);
  const int outputs = operands.outputs;
  int32_t* const to = partial + static_cast<int64_t>(blockIdx.z) * operands.g.y_channels * outputs;
  for_each_pair<tile_n>(sums, [&](int row, int, int column, int32_t one, int32_t other) {
    const int m = first_m + row, n = first_n + column;
    if (m >= operands.g.y_channels) return;
    int32_t* const at = to + static_cast<int64_t>(m) * outputs + n;
    if (n < outputs) at[0] = one;
    if (n + 1 < outputs) at[1] = other;
  });
}

// Wide tiles where their columns are used.
bool wide(int64_t columns) { return columns % 128 == 0 || columns > 512; }
int64_t weight_columns(const WeightGather& g) { return int64_t{g.kernel_h} * g.kernel_w * g.x_channels; }

template <class From>
void launch_gather(const GatherOperands<From>& operands, const Output& output, Stream stream) {
  const Gather& g = operands.g;
  const bool paired = g.to_channels % 2 == 0 && pairs_align(output.to, output.bf16 ? DType::bf16 : DType::f32);
  const unsigned tiles = blocks_for(int64_t{g.chunks} * chunk_pixels, tile_m);
  if (wide(g.to_channels))
    OCTET_LAUNCH((gather_kernel<128, From>), dim3(tiles * blocks_for(g.to_channels, 128)), dim3(Tile<128>::threads),
                 stream, operands, output, paired);
  else
    OCTET_LAUNCH((gather_kernel<64, From>), dim3(tiles * blocks_for(g.to_channels, 64)), dim3(Tile<64>::threads),
                 stream, operands, output, paired);
}

template <class X>
void launch_weight(const WeightOperands<X>& operands, int splits, int32_t* partial, Stream stream) {
  const int split = (operands.pieces + splits - 1) / splits;
  const auto grid = [&](int tile_n) {
    return dim3(blocks_for(operands.g.y_channels, tile_m), blocks_for(operands.outputs, tile_n),
                static_cast<unsigned>(splits));
  };
  if (wide(operands.outputs))
    OCTET_LAUNCH((weight_kernel<128, X>), grid(128), dim3(Tile<128>::threads), stream, operands, split, partial);
  else
    OCTET_LAUNCH((weight_kernel<64, X>), grid(64), dim3(Tile<64>::threads), stream, operands, split, partial);
}

}  // namespace

int64_t tensor_weight_tiles(const WeightGather& g) {
  return int64_t{blocks_for(g.y_channels, tile_m)} * blocks_for(weight_columns(g), wide(weight_columns(g)) ? 128 : 64);
}

void launch_tensor_gather(const Gather& g, const int8_t* from, DType type, const int8_t* weights, int lane_bytes,
                          int tap_bytes, const Output& output, Stream stream) {
  const int pixel_pieces = (g.from_channels + 15) / 16, pieces = g.h.taps * g.w.taps * pixel_pieces;
  const auto launch = [&]<class From>(From) {
    launch_gather(GatherOperands<From>{g, from, weights, lane_bytes, tap_bytes, pixel_pieces, pieces}, output, stream);
  };
  type == DType::u8 ? launch(uint8_t{}) : launch(int8_t{});
}

void launch_tensor_weight(const WeightGather& g, const int8_t* x, DType type, const int8_t* dy, int splits,
                          int32_t* partial, Stream stream) {
  const int image_pieces = (g.images + 15) / 16, pieces = g.y_h * g.y_w * image_pieces;
  const auto launch = [&]<class X>(X) {
    launch_weight(WeightOperands<X>{g, x, dy, image_pieces, pieces, static_cast<int>(weight_columns(g))}, splits,
                  partial, stream);
  };
  type == DType::u8 ? launch(uint8_t{}) : launch(int8_t{});
}

}  // namespace octet::cuda
