// One tile of the contraction on tensor cores: D[m][n] = sum over k of A[m][k] B[n][k], with both operands' k
// contiguous in pieces of 16 bytes. Sums are exact int32. For .cu files.
#pragma once
#include "kernels/cuda/device.h"
#include "kernels/cuda/tile_pixels.h"

namespace octet::cuda {

inline constexpr int tile_m = 128, tile_k = 64;  // k in bytes
inline constexpr int stages = 3, row_pieces = tile_k / 16;
// Blocks of 128 and of 256 threads that a processor should hold at once; Turing's copies take registers.
inline constexpr int blocks_of_128 = 3;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr int blocks_of_256 = 1;
#else
inline constexpr int blocks_of_256 = 2;
#endif

// Tiles of 128 x 64 or 128 x 128, of which a warp computes 64 x 32. Wide tiles read less: each of their rows serves
// twice as many products.
template <int tile_n>
struct Tile {
  static constexpr int threads = 2 * tile_n;
  static constexpr int rows = threads / row_pieces;  // copied at once, one piece by each thread
  static constexpr int a_rows = tile_m / rows, b_rows = tile_n / rows;
  static constexpr int stage_bytes = (tile_m + tile_n) * tile_k;
  static constexpr int bytes = stages * stage_bytes;
};

// Whether wide tiles would use their columns.
inline bool wide_tiles(int64_t columns) { return columns % 128 == 0 || columns > 512; }

// Byte of a piece in a stage. The eight rows that one matrix load reads lie in eight different groups of banks.
__device__ __forceinline__ int swizzled(int row, int piece) { return row * tile_k + ((piece ^ ((row >> 1) & 3)) << 4); }

struct Sums {  // of one thread: 4 x 4 blocks of 16 x 8
  int32_t at[4][4][4] = {};
};

// A warp's part of a tile.
template <int tile_n>
struct Part {
  int m, n;
  __device__ __forceinline__ Part() {
    const unsigned warp = threadIdx.x / 32;
    m = static_cast<int>(warp / (tile_n / 32) * 64);
    n = static_cast<int>(warp % (tile_n / 32) * 32);
  }
};

// Adds the products of one stage, 64 bytes of k, to the thread's sums. b_row: the row of B that this lane reads in the
// first matrix load, b_step rows before that of the second; b_place: byte of a piece in B, like swizzled().
template <class A, class B, int b_step, int (*b_place)(int, int)>
__device__ __forceinline__ void multiply_rows(const int8_t* a, int m, int b_row, int lane, Sums& sums) {
  const int8_t* const b = a + tile_m * tile_k;
  // Matrix loads of A read rows 0-7 and 8-15 of the first 16 bytes, then of the next. Rows 16 apart are swizzled alike.
  const int a_row = m + lane % 16;
#pragma unroll
  for (int half = 0; half < tile_k / 32; ++half) {
    const int8_t* const a_at = a + swizzled(a_row, half * 2 + lane / 16);
    const int8_t* const b_at = b + b_place(b_row, half * 2 + lane / 8 % 2);
    uint32_t a_block[4][4], b_block[2][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) load_matrices(a_block[i], a_at + i * 16 * tile_k);
#pragma unroll
    for (int j = 0; j < 2; ++j) load_matrices(b_block[j], b_at + j * b_step * tile_k);
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        multiply_add<A, B>(sums.at[i][j], a_block[i], b_block[j / 2][j % 2 * 2], b_block[j / 2][j % 2 * 2 + 1]);
  }
}

// The same where both operands are swizzled: matrix loads of B read columns 0-7 in two pieces, then 8-15.
template <int tile_n, class Operands>
__device__ __forceinline__ void multiply_stage(const int8_t* a, const Part<tile_n>& part, int lane, Sums& sums) {
  multiply_rows<typename Operands::A, typename Operands::B, 16, swizzled>(a, part.m, part.n + lane % 8 + lane / 16 * 8,
                                                                          lane, sums);
}

// The contraction over pieces [first, end) of the tile at first_m, first_n. shared: Tile::bytes.
template <int tile_n, class Operands>
__device__ __forceinline__ void contract(const Operands& operands, int first_m, int first_n, int first, int end,
                                         int8_t* shared, Sums& sums) {
  using T = Tile<tile_n>;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int column = thread % row_pieces, row = thread / row_pieces;  // what this thread copies
  typename Operands::template Cursor<T::a_rows, T::b_rows> cursor(operands, first_m + row, first_n + row, T::rows,
                                                                  first + column, end);
  const int steps = (end - first + row_pieces - 1) / row_pieces;
  static_assert(T::rows % 8 == 0);  // the rows that one thread copies are swizzled alike
  int8_t* const own = shared + swizzled(row, column);

  int filled = 0;  // the stage that the next copies fill
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
  int stage = 0;
  for (int step = 0; step < steps; ++step) {
    wait_copies<stages - 2>();
    __syncthreads();
    fetch(step + stages - 1);
    multiply_stage<tile_n, Operands>(shared + stage * T::stage_bytes, part, lane, sums);
    stage = stage + 1 == stages ? 0 : stage + 1;
  }
  wait_copies<0>();
  __syncthreads();
}

}  // namespace octet::cuda
