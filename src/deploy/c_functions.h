// The functions of a network in C, as text. A file holds those that its network calls. They are C11 without a library;
// docs/integer-network.md has the arithmetic.
#pragma once

namespace octet::c_text {

// What every network needs. Bytes are codes of 8 bits; the signed ones are in two's complement.
inline constexpr char common[] = R"(
_Static_assert((-3 >> 1) == -2, "shifts of negative numbers must round down");

static int32_t code_of(const uint8_t *bytes, int is_signed) {
  return is_signed ? (*bytes ^ 0x80) - 0x80 : *bytes;
}

/* value / 2^shift, rounded to nearest, ties to even. 0 < shift < 63, |value| < 2^62. */
static int64_t shifted(int64_t value, int shift) {
  const int64_t down = value >> shift;
  const int64_t rest = value & (((int64_t)1 << shift) - 1), half = (int64_t)1 << (shift - 1);
  return down + (rest > half || (rest == half && (down & 1)));
}
)";

inline constexpr char layer[] = R"(
/* An image of height x width x channels, the channels of a pixel side by side. */
typedef struct {
  int32_t height, width, channels;
} shape;

/* A convolution. Its weights are outputs x kernel height x kernel width x (inputs / groups). */
typedef struct {
  shape x, y;
  int32_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;
  int32_t x_signed, shortcut_signed, lowest, highest;
  const int8_t *weights;
  const int32_t *bias, *factor;
  const int64_t *shortcut_factor;
  const uint8_t *shift;
} layer;
)";

inline constexpr char code[] = R"(
static uint8_t code_from(const layer *of, int32_t channel, int32_t sum, const uint8_t *shortcut) {
  int64_t value = (int64_t)(sum + of->bias[channel]) * of->factor[channel];
  if (shortcut) value += code_of(shortcut, of->shortcut_signed) * of->shortcut_factor[channel];
  value = shifted(value, of->shift[channel]);
  if (value < of->lowest) value = of->lowest;
  if (value > of->highest) value = of->highest;
  return (uint8_t)value;
}
)";

inline constexpr char logits[] = R"(
static int32_t logit_from(const layer *of, int32_t channel, int32_t sum) {
  return (int32_t)shifted((int64_t)(sum + of->bias[channel]) * of->factor[channel], of->shift[channel]);
}
)";

inline constexpr char products[] = R"(
static int32_t sum_of_products(const uint8_t *x, int x_signed, const int8_t *weights, int32_t count) {
  int32_t sum = 0, i;
  if (x_signed) {
    const int8_t *const codes = (const int8_t *)x;
    for (i = 0; i < count; ++i) sum += codes[i] * weights[i];
  } else {
    for (i = 0; i < count; ++i) sum += x[i] * weights[i];
  }
  return sum;
}

/* The sum of one output over the part of its window that lies on the image. */
static int32_t sum_at(const layer *of, const uint8_t *x, int32_t row, int32_t column, int32_t output) {
  const int32_t inputs = of->x.channels / of->groups;
  const int32_t whole_rows = of->groups == 1 && of->dilation_w == 1;
  const int32_t left = column * of->stride_w - of->pad_w;
  int32_t first = 0, last = of->kernel_w, sum = 0, i, j;
  while (left + first * of->dilation_w < 0) ++first;
  while (last > first && left + (last - 1) * of->dilation_w >= of->x.width) --last;
  x += output / (of->y.channels / of->groups) * inputs;
  for (i = 0; i < of->kernel_h; ++i) {
    const int32_t y = row * of->stride_h - of->pad_h + i * of->dilation_h;
    const int8_t *const weights = of->weights + (output * of->kernel_h + i) * of->kernel_w * inputs;
    const uint8_t *pixel;
    if (y < 0 || y >= of->x.height) continue;
    pixel = x + (y * of->x.width + left + first * of->dilation_w) * of->x.channels;
    if (whole_rows) {
      sum += sum_of_products(pixel, of->x_signed, weights + first * inputs, (last - first) * inputs);
      continue;
    }
    for (j = first; j < last; ++j, pixel += of->dilation_w * of->x.channels)
      sum += sum_of_products(pixel, of->x_signed, weights + j * inputs, inputs);
  }
  return sum;
}
)";

inline constexpr char convolution[] = R"(
/* y may be the memory of the shortcut. */
static void convolve(const layer *of, const uint8_t *x, const uint8_t *shortcut, uint8_t *y) {
  int32_t row, column, output;
  for (row = 0; row < of->y.height; ++row)
    for (column = 0; column < of->y.width; ++column)
      for (output = 0; output < of->y.channels; ++output) {
        *y++ = code_from(of, output, sum_at(of, x, row, column, output), shortcut);
        if (shortcut) ++shortcut;
      }
}
)";

inline constexpr char depthwise[] = R"(
/* A convolution of each channel alone. y may be the memory of the shortcut. */
static void convolve_channels(const layer *of, const uint8_t *x, const uint8_t *shortcut, uint8_t *y) {
  const int32_t taps = of->kernel_h * of->kernel_w, channels = of->y.channels;
  int32_t row, column, channel, i, j;
  for (row = 0; row < of->y.height; ++row)
    for (column = 0; column < of->y.width; ++column) {
      const int32_t top = row * of->stride_h - of->pad_h, left = column * of->stride_w - of->pad_w;
      for (channel = 0; channel < channels; ++channel) {
        int32_t sum = 0;
        for (i = 0; i < of->kernel_h; ++i) {
          const int32_t at_row = top + i * of->dilation_h;
          if (at_row < 0 || at_row >= of->x.height) continue;
          for (j = 0; j < of->kernel_w; ++j) {
            const int32_t at = left + j * of->dilation_w;
            if (at < 0 || at >= of->x.width) continue;
            sum += code_of(x + (at_row * of->x.width + at) * channels + channel, of->x_signed) *
                   of->weights[channel * taps + i * of->kernel_w + j];
          }
        }
        *y++ = code_from(of, channel, sum, shortcut);
        if (shortcut) ++shortcut;
      }
    }
}
)";

inline constexpr char mean[] = R"(
/* Each channel summed over the image. */
static void average_image(const layer *of, const uint8_t *x, uint8_t *y) {
  const int32_t pixels = of->x.height * of->x.width, channels = of->x.channels;
  int32_t channel, i;
  for (channel = 0; channel < channels; ++channel) {
    int32_t sum = 0;
    for (i = 0; i < pixels; ++i) sum += code_of(x + i * channels + channel, of->x_signed);
    y[channel] = code_from(of, channel, sum, 0);
  }
}
)";

inline constexpr char linear[] = R"(
static void classify(const layer *of, const uint8_t *x, int32_t *logits) {
  int32_t output;
  for (output = 0; output < of->y.channels; ++output)
    logits[output] = logit_from(of, output, sum_at(of, x, 0, 0, output));
}
)";

inline constexpr char pool[] = R"(
typedef struct {
  shape x, y;
  int32_t kernel, stride, pad, is_signed, rectify, count_padding;
} pool;
)";

inline constexpr char maximum[] = R"(
static void take_largest(const pool *of, const uint8_t *x, uint8_t *y) {
  int32_t row, column, channel, i, j;
  for (row = 0; row < of->y.height; ++row)
    for (column = 0; column < of->y.width; ++column)
      for (channel = 0; channel < of->x.channels; ++channel) {
        int32_t largest = of->rectify ? 0 : -128;
        for (i = row * of->stride - of->pad; i < row * of->stride - of->pad + of->kernel; ++i)
          for (j = column * of->stride - of->pad; j < column * of->stride - of->pad + of->kernel; ++j) {
            int32_t code;
            if (i < 0 || j < 0 || i >= of->x.height || j >= of->x.width) continue;
            code = code_of(x + (i * of->x.width + j) * of->x.channels + channel, of->is_signed);
            if (code > largest) largest = code;
          }
        *y++ = (uint8_t)largest;
      }
}
)";

inline constexpr char average[] = R"(
/* sum / count, rounded to nearest, ties to even */
static int32_t quotient(int32_t sum, int32_t count) {
  int32_t down = sum / count, rest = sum % count;
  if (rest < 0) {
    --down;
    rest += count;
  }
  return down + (2 * rest > count || (2 * rest == count && (down & 1)));
}

static void take_mean(const pool *of, const uint8_t *x, uint8_t *y) {
  int32_t row, column, channel, i, j;
  for (row = 0; row < of->y.height; ++row)
    for (column = 0; column < of->y.width; ++column)
      for (channel = 0; channel < of->x.channels; ++channel) {
        int32_t sum = 0, count = 0;
        for (i = row * of->stride - of->pad; i < row * of->stride - of->pad + of->kernel; ++i)
          for (j = column * of->stride - of->pad; j < column * of->stride - of->pad + of->kernel; ++j) {
            if (i < 0 || j < 0 || i >= of->x.height || j >= of->x.width) continue;
            sum += code_of(x + (i * of->x.width + j) * of->x.channels + channel, of->is_signed);
            ++count;
          }
        *y++ = (uint8_t)quotient(sum, of->count_padding ? of->kernel * of->kernel : count);
      }
}
)";

inline constexpr char concat[] = R"(
/* Channels of each pixel, beside those of other parts. codes: what becomes of each code, or nothing changes. */
static void join(const uint8_t *x, int32_t pixels, int32_t channels, const uint8_t *codes, uint8_t *y, int32_t all) {
  int32_t pixel, channel;
  for (pixel = 0; pixel < pixels; ++pixel, x += channels, y += all)
    for (channel = 0; channel < channels; ++channel) y[channel] = codes ? codes[x[channel]] : x[channel];
}
)";

inline constexpr char images[] = R"(
static void encode(const uint8_t *pixels, int32_t count, uint8_t *codes) {
  int32_t i, channel;
  for (i = 0; i < count; ++i)
    for (channel = 0; channel < 3; ++channel) *codes++ = (uint8_t)code_of_pixel[256 * channel + *pixels++];
}
)";

// In the order in which functions call each other.
inline constexpr const char* in_order[] = {layer, code,   logits, products, convolution, depthwise,
                                           mean,  linear, pool,   maximum,  average,     concat};

// A program, of {name}, {prefix} and {class_name}.
inline constexpr char example[] =
    R"(/* {name}: an example, {mark}. It reads the bytes of one image from standard input, red, green and blue of each
   pixel, and prints the number of its class, its logit, and the name. */
#include <stdio.h>

#include "{name}.h"

static uint8_t pixels[{prefix}_HEIGHT * {prefix}_WIDTH * 3], buffer[{prefix}_BUFFER_BYTES];
static int32_t logits[{prefix}_CLASSES];

int main(void) {{
  int32_t best;
  if (fread(pixels, 1, sizeof pixels, stdin) != sizeof pixels || getchar() != EOF) {{
    fprintf(stderr, "{name}: give %u bytes on standard input, {prefix}_HEIGHT x {prefix}_WIDTH x 3\n",
            (unsigned)sizeof pixels);
    return 1;
  }}
  {name}_run(pixels, buffer, logits);
  best = {name}_best(logits);
  printf("%d %ld %s\n", (int)best, (long)logits[best], {class_name});
  return 0;
}}
)";

}  // namespace octet::c_text
