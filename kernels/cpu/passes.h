// The elementwise passes of the CPU backend, one function table per instruction set. Every function works on one range
// of elements in the calling thread; the backend cuts tensors into ranges. All tiers give the same bits.
//
// Tensors are walked as flat NHWC arrays. Per-channel coefficients are repeated over a period, a common multiple of the
// channel count and 64. Element i uses coefficient i % period, which is stored at coefficient_place(i % period).
#pragma once
#include "kernels/backend.h"
#include "kernels/shared/encode.h"
#include "kernels/shared/sums.h"

namespace octet::cpu {

// Pair order: of each 32 coefficients first the 16 of even elements, then those of odd ones.
static constexpr int64_t coefficient_place(int64_t element) {
  return element / 32 * 32 + element % 2 * 16 + element % 32 / 2;
}

// Elements that go through the first-level cache at once.
inline constexpr int64_t block_elements = histogram_block;

struct Span {  // passes with coefficients need `first` to be a multiple of 32; reductions, of a chunk
  int64_t first = 0, count = 0;
};

// What becomes of the values that a pass computes.
enum class Sink : uint8_t { nearest, stochastic, real, range };
inline constexpr int sinks = 4;

struct Target {
  void* out = nullptr;                            // codes or f32, from the span's first element on
  float inverse_scale = 0, lowest = 0, qmax = 0;  // nearest, stochastic: lowest and largest code
  float clip = 0;                                 // nearest, stochastic: |value| > clip counts as saturated
  const uint16_t* random_bits =
      nullptr;            // stochastic: 16 per element, from the span's first on; 64 bytes beyond are read
  float largest = 0;      // range and nearest: raised to max |value|; NaN is passed over
  int64_t saturated = 0;  // nearest and stochastic: added to, except by affine_forward
};

enum class Residual : uint8_t { none, codes, real };

// Codes are read as signed bytes and extended; these bits of the result are kept.
static constexpr int32_t kept_bits(DType codes) { return codes == DType::u8 ? 0xFF : -1; }

// value = clamp(a x + b + residual, low, high); code = (x - offset) * inverse, rounded to nearest. The mask holds a
// word of bits for each step of the tier: first those of even elements, then those of odd ones.
struct AffineForward {
  const void* x = nullptr;
  const float *a = nullptr, *b = nullptr;
  int64_t period = 64;
  const void* residual = nullptr;
  float residual_scale = 0;
  int32_t residual_bits = -1;  // kept_bits()
  float low = 0, high = 0;
  float mask_high = 0;      // largest_passing()
  uint8_t* mask = nullptr;  // low < a x + b + residual <= mask_high; null: not written
  int8_t* codes = nullptr;  // null: none are written, and what follows is not read
  const float *offset = nullptr, *inverse = nullptr;
};

// dz = mask ? dy : 0;  value = A dz + (B x + C), where x may be codes
struct AffineBackward {
  const void *x = nullptr, *dy = nullptr;
  const uint8_t* mask = nullptr;  // as affine_forward() of the same tier wrote it
  const float *A = nullptr, *B = nullptr, *C = nullptr;
  int64_t period = 64;
  Into d_residual;  // affine_backward() writes or adds dz
};

// The windows of a pool that reach one pixel of x: neighbours in y, whose elements are so far apart.
struct PoolWindows {
  int64_t rows = 0, columns = 0, row_step = 0, column_step = 0;
  const void* dy = nullptr;          // of the first window, f32 or bf16
  const uint8_t* choices = nullptr;  // of a maximum, else null
  // Which pixel of the first window this is, and by how much the number falls from a window to the next.
  int number = 0, number_row = 0, number_column = 0;
  const int32_t *heights = nullptr, *widths = nullptr;  // of an average: of each row and column of windows
};

// The index of a type in the table.
static constexpr int index_of(DType dtype) { return dtype == DType::f32 ? 0 : dtype == DType::bf16 ? 1 : 2; }

struct Passes {
  // 16 random bits for each element of some groups (RandomGroup in shared/random.h), from the global group on.
  void (*random_bits)(const RngKey&, uint64_t first_group, int64_t groups, uint16_t* bits);

  using Encode = void (*)(const void* x, Span, Target&);
  Encode encode[2][sinks];  // [index_of(x)][sink]

  using Forward = void (*)(const AffineForward&, Span, Target&);
  Forward affine_forward[2][3][sinks];  // [index_of(x)][Residual][sink]

  // of_chunks (chunks, 2, channels): for each chunk of 64 pixels the sums of dz, then those of dz x, see shared/sums.h.
  // room: for reduce_room floats a channel.
  using Reduce = void (*)(const AffineBackward&, Span, int64_t channels, float* room, float* of_chunks);
  static constexpr int64_t reduce_room = 2 * norm_pixels + 2 * norm_sums;
  Reduce affine_reduce[3][2][2];  // [index_of(x)][index_of(dy)][masked]

  using Backward = void (*)(const AffineBackward&, Span, Target&);
  // The sinks that training needs; the backend makes the others from real values.
  Backward affine_backward[3][2][2][2];  // [index_of(x)][index_of(dy)][masked][stochastic, real]

  // Adds one to the bin of each value (see shared/encode.h), spread over four tables of histogram_bins.
  void (*histogram)(const float* values, int64_t count, uint32_t* four_tables);
  bool (*all_finite[2])(const void* x, Span);  // [index_of(x)]
  // dx[c] (+)= the sum of the windows' dy[c], or of what each chose this pixel for; summed in double, in row order.
  void (*unpool[2][2])(const PoolWindows&, int64_t channels, void* dx, bool add);  // [index_of(dy)][index_of(dx)]
  void (*sgd_update)(const SgdProblem&, float rate, float* w, const float* gradient, float* velocity, int64_t count);
};

}  // namespace octet::cpu
