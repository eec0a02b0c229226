// Depthwise 3x3 convolutions of unsigned codes that write codes, of integer networks. A word holds the three rows of a
// pixel's column, so that one instruction multiplies and adds three taps of 16 channels, and a column that is packed
// once serves three outputs of a row. Nothing is copied before.
#pragma once
#include <cstdint>

namespace octet::cpu {

inline constexpr int depthwise_lanes = 64;  // channels of a block
inline constexpr int depthwise_taps = 3;    // along each axis

// One row of y. Four vectors of 16 lanes are what unpacking bytes in parts of 128 bits makes of the
// 64 channels of a block: channel 16 p + 4 v + i is lane 4 p + i of vector v.
struct DepthwiseRow {
  const uint8_t* x[depthwise_taps];  // the rows that it reads; outside of the image a row of zeros
  int64_t x_columns, y_columns, channels;
  int stride, pad;        // along the row
  const int8_t* weights;  // [block][column of taps][64 lanes][4]; the last of four is 0
  const int32_t* start;   // [block][64 lanes]: biases
  const float* factor;    // [block][64 lanes]
  int lowest, highest;    // codes of y
  void* y;
};

struct DepthwiseCodes {
  void (*unsigned_row)(const DepthwiseRow&);  // y is u8
  void (*signed_row)(const DepthwiseRow&);    // y is s8
};

}  // namespace octet::cpu
