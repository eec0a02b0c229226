// The one inner loop of every convolution, in all three passes:
//   sum[m][lane] = start[lane] + sum over segments s and words k:  x[base[m] + segment[s] + 4 k] . weights[s][k][lane]
// A word is 32 bits of the contraction: four codes (u8 x s8 in VNNI and AMX, s8 x s8 in NEON), two codes (s16 x s16) or
// one f32. In forward and backward data m runs over the pixels of what is written, and lanes over its channels. In
// backward weight m runs over (tap, input channel), lanes over output channels, and the words over output pixels. All
// geometry is in the tables: a kernel knows nothing of strides or padding.
#pragma once
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/shared/sums.h"

namespace octet::cpu {

inline constexpr int block_lanes = 16;    // output lanes of one vector
inline constexpr int tile_multiple = 32;  // base tables are padded to a multiple of this

// Memory that the next work item will use. It is prefetched while this item is computed.
struct Ahead {
  const char* at = nullptr;
  int64_t bytes = 0;
  Ahead take(int64_t count) {  // from the front
    const Ahead front{at, count < bytes ? count : bytes};
    at += front.bytes;
    bytes -= front.bytes;
    return front;
  }
};

// A panel is `blocks` vectors of 16 lanes. Weights and start are packed for it: [segment][word][block][16
// lanes][group]. Where words are joined, a lane's group is that of both words: a block of the first word has the first
// half of the lanes, a block of the second one the other half.
struct Panel {
  const void* x;           // packed activations
  const int32_t* base;     // byte offsets of the m, readable up to the next tile_multiple
  int64_t count;           // number of m
  const int32_t* segment;  // byte offsets
  int64_t segments;
  int words;  // per segment
  const void* weights;
  int blocks;
  const int32_t* start;   // (blocks * 16); bits of f32 in the real kernels
  int64_t pair_step = 0;  // base[2 i + 1] - base[2 i] if that is the same for all i, else 0
  int64_t row_step = 0;  // distance of taps, if a segment is three taps as far apart as neighbouring m of a row; else 0
  int64_t pixel_step = 0;  // depthwise weight gradient: bytes between the pixels of dy
  bool first = false;      // accumulate() sets the sums instead of adding to them (not depthwise)
  Ahead ahead[2] = {};
};

// How sums of codes, biases included, become codes, see Requantization. Each pointer is at the panel's first lane, and
// may be read up to the panel's last block. The residual lies as y does.
struct CodeRounding {
  const double *factor, *residual_factor;
  const void* residual;  // or null
  bool residual_is_unsigned;
  int lowest, highest;
  bool real;  // y is f32
  // Whether f32 gives the same codes, see bound_sums(). Then the sums are first brought between `least` and `most`.
  // With a residual, the factors in f32 are multiplied by 4096.
  bool in_floats;
  const int32_t *least, *most;
  const float *short_factor, *short_residual_factor;
};

// The moments of a convolution's output over one work item, so far: (lanes) each, from a panel's first lane on.
struct RealSums {
  double *sum = nullptr, *square = nullptr;
  float *min = nullptr, *max = nullptr;
};
// Those of sums of codes, which are exact. The squares' sum is low + 2^32 high. chunk: how many pixels' sums int32 and
// squares of half of the lanes uint64 surely hold. min and max may be null.
struct ExactSums {
  int64_t* sum = nullptr;
  uint64_t *low = nullptr, *high = nullptr;
  int64_t chunk = 0;
  int32_t *min = nullptr, *max = nullptr;
};

// The part of y to which sums are added: elsewhere they replace what is there. All of it, if both pointers are null.
struct PartOfY {
  const uint8_t* mask = nullptr;       // of all of y, as this tier's affine_forward() wrote it; or null
  const uint8_t* has_pixel = nullptr;  // by the pixel's number in the work item, 0 or 1; or null
  int64_t first = 0;                   // of y's elements, that at the destination
};

// Sums of a panel's weight gradient in all slots. Those of one slot are [count][panel_lanes], of which `lanes` exist.
struct PanelSums {
  const void* at;  // int32 or f32
  int64_t slots, slot_step, count;
  int64_t row;  // elements from a lane's weights to the next lane's
  int64_t panel_lanes, lanes;
  float scale;
};

// Where dequantized sums go: y[pixel[m] * channels + lane] (+)= float(sum) * scale; or codes, if `codes` is set. Sums
// of digits are joined first, and have a factor for each lane in place of the scale.
struct Destination {
  float scale;
  const float* factor;   // readable up to the panel's last lane; digits only
  void* y;               // at the first lane of the panel
  const int32_t* pixel;  // (count)
  int64_t channels;      // of y
  int lanes;             // that exist; at most blocks * 16
  bool bf16, add;
  PartOfY part;               // with `add`, of codes without groups
  RealSums real;              // to which the moments of this call are added; or none
  ExactSums exact;            // the same of codes
  const CodeRounding* codes;  // or null
};

// Depthwise kernels see lanes as channels of both operands, so that they share everything else:
//   contract:   sum[m][lane] = start[lane] + sum over taps t of  x[base[m] + segment[t]][lane] * weights[t / 2][lane][t
//   % 2], accumulate: sums[t][lane] += sum over pixels m of  x[base[m] + segment[t]][lane] * weights[m *
//   pixel_step][lane],
// with `words` pairs of segments in the former and `segments` taps in the latter; packed values are s16.

// How activations of one type are packed.
struct Packing {
  uint8_t zero;  // the byte that, repeated, is a packed activation of value 0
  // dst[i] = packed activation of src[i].
  void (*pack)(const void* src, void* dst, int64_t count);
  // dst[c * channel_step + p] = packed activation of src[p * pixel_step + c]; steps in elements.
  void (*transpose)(const void* src, int64_t pixel_step, int64_t pixels, int64_t channels, void* dst,
                    int64_t channel_step);
  // start[lane], from the packed weights of one panel: the value at which sums start, so that an offset in the packing
  // of x cancels.
  void (*start)(const void* weights, int64_t words, int blocks, int32_t* start);
};

// Products of pixels (u8) with integers of 24 bits, which are split into digits, so that sums are exact. A block of 16
// lanes is one block of each digit, the lowest first: weights are [segment][word][block][digit][16 lanes][group].
// Digits are signed; each but the highest has `bits` bits.
struct Digits {
  int count = 1;
  int bits = 0;
  int64_t pixels_per_sum = 0;  // so many products of a pixel with a digit fit into an int32
  // The largest |src[pixel * pixel_step + lane]|, as the bits of a float without its sign, if it exceeds largest[lane]:
  // NaN exceeds infinity.
  void (*raise)(const float* src, int64_t pixel_step, int64_t pixels, int lanes, uint32_t* largest) = nullptr;
  // Words of `group` pixels of round(src * scale[lane]), as interleave() writes those of one block. scale: of 16 lanes.
  void (*interleave)(const float* src, int64_t pixel_step, int64_t pixels, int lanes, const float* scale,
                     void* dst) = nullptr;
};

// One instruction set's kernels for one kind of operands. Sources are codes or f32. The codes of weights and of output
// gradients are s8. Weights of digits are int32.
struct ContractionKernels {
  int group;          // contraction elements per word: 4, 2 or 1
  int max_blocks;     // per panel
  int word_multiple;  // segments are padded (with zero weights) to a multiple of this many words
  int joined_words;   // 1 or 2, see Panel; pack_weights() and interleave() write them at once
  bool depthwise;
  bool matrix;                     // tiles are whole: m and words that do not exist cost as much as others
  bool real;                       // f32: sums are floats and their order is part of the result
  Packing packing, packing_of_u8;  // of s8 or f32, and of u8
  Digits digits;
  int source_bytes() const { return real ? 4 : 1; }
  int weight_bytes() const { return real || digits.count > 1 ? 4 : 1; }
  int block_bytes() const { return 64 * digits.count; }  // of a word's weights
  int packed_bytes() const { return 4 / group; }
  const Packing& packing_of(DType x) const { return x == DType::u8 ? packing_of_u8 : packing; }

  // Words of `group` pixels: dst[k * word_step words][lane][i] = src[(k * group + i) * pixel_step + lane], zero
  // outside.
  void (*interleave)(const void* src, int64_t pixel_step, int64_t pixels, int lanes, void* dst, int64_t word_step);
  // dst[k * word_step words][lane][i] = src[lane * lane_step + offset[k * group + i]], zero where the offset is -1 or
  // the lane does not exist.
  void (*pack_weights)(const void* src, int64_t lane_step, int lanes, const int32_t* offset, int64_t words, void* dst,
                       int64_t word_step);
  void (*contract)(const Panel&, const Destination&);
  // sums[m][blocks * digits * 16] (int32, or f32) += the contraction.
  void (*accumulate)(const Panel&, void* sums);
  // dw[lane * row + m] (+)= scale * the sum of all slots, added exactly (real numbers in double, in slot order).
  // past_caches: whole lines go there, since dw is read much later.
  void (*write_sums)(const PanelSums&, bool add, bool past_caches, float* dw);
};

}  // namespace octet::cpu
