// The first layer on images of bytes (shared/pixels.h). Weights and gradients become three digits, s8, and each digit
// of a channel is a column of the kernels of codes. With a stride of 2, two by two pixels are one of 16 bytes.
#include "kernels/cuda/backend.h"
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/store.h"
#include "kernels/shared/pixel_weights.h"
#include "kernels/shared/sums.h"

namespace octet::cuda {
namespace {

constexpr int digits = pixel_digits, threads = 256;
constexpr int piece_bytes = 16;  // of a pixel, or of a tap's weights

// How images and taps lie in pieces. joined: two by two pixels in each, from an even row and column on.
struct Pieces {
  ConvProblem p;             // of pieces, with 16 or 4 bytes each; y has the channels of the layer
  int kernel_w;              // of the layer
  int odd_h = 0, odd_w = 0;  // whether the layer's padding is: then a row or column of zeros is before the kernel's
  bool joined;
  int64_t taps() const { return int64_t{p.kernel_h} * p.kernel_w; }
};
// Byte of a tap of the layer among those of an output channel. apart: bytes between taps that are not joined.
__device__ __forceinline__ int place_of(const Pieces& of, int tap, int apart) {
  const int v = tap / of.kernel_w + of.odd_h, u = tap % of.kernel_w + of.odd_w;
  return of.joined ? (v / 2 * of.p.kernel_w + u / 2) * piece_bytes + (v % 2 * 2 + u % 2) * pixel_channels : tap * apart;
}
Pieces pieces_of(const ConvProblem& layer) {
  Pieces of{layer, layer.kernel_w, 0, 0, false};
  ConvProblem& p = of.p;
  p.x.c = pixel_channels;
  of.joined = p.stride_h == 2 && p.stride_w == 2 && p.dilation_h == 1 && p.dilation_w == 1;
  if (!of.joined) return of;
  of.odd_h = p.pad_h % 2, of.odd_w = p.pad_w % 2;
  p.kernel_h = (p.kernel_h + of.odd_h + 1) / 2, p.kernel_w = (p.kernel_w + of.odd_w + 1) / 2;
  p.pad_h = (p.pad_h + of.odd_h) / 2, p.pad_w = (p.pad_w + of.odd_w) / 2;
  p.stride_h = p.stride_w = 1;
  p.x = {p.x.n, (p.x.h + 1) / 2, (p.x.w + 1) / 2, piece_bytes};
  return of;
}
__global__ void join_pixels(const uint32_t* from, int64_t count, int h, int w, int joined_h, int joined_w, void* to) {
  const int64_t i = thread_index();
  if (i >= count) return;
  const int64_t line = i / joined_w, image = line / joined_h;
  const int row = static_cast<int>(line - image * joined_h) * 2, column = static_cast<int>(i - line * joined_w) * 2;
  const uint32_t* const first = from + (image * h + row) * w + column;
  const bool right = column + 1 < w, below = row + 1 < h;
  write_sixteen(static_cast<char*>(to) + i * piece_bytes,
                {{first[0], right ? first[1] : 0u, below ? first[w] : 0u, right && below ? first[w + 1] : 0u}});
}

// Digit d of |x| <= pixel_limit, from -128 to 127, the lowest first.
__device__ __forceinline__ int8_t digit_of(int32_t x, int d) {
  const int32_t half = d == 0 ? 0 : d == 1 ? 0x80 : 0x8080;
  return static_cast<int8_t>((x + half) >> (8 * d));
}

__global__ void values_kernel(const __grid_constant__ PixelScale pixels, const uint8_t* bytes, int64_t count,
                              float* to) {
  const int64_t i = thread_index();
  if (i < count) normalize_pixels(pixels, bytes + i * pixel_channels, 1, to + i * 3);
}

// A block encodes one output channel, a thread each of its taps. to: rows of `row` bytes for each column; it is zero
// before.
constexpr int encode_threads = 128;
static_assert(encode_threads * pixel_channels >= most_pixel_products);
__global__ void __launch_bounds__(encode_threads)
    encode_weights(const __grid_constant__ PixelScale pixels, const float* w, int taps,
                   const __grid_constant__ Pieces pieces, int row, float* factors, int8_t* to) {
  __shared__ float factor;
  __shared__ double inside[encode_threads];
  __shared__ int32_t rounded[encode_threads];
  const int tap = static_cast<int>(threadIdx.x), channel = static_cast<int>(blockIdx.x);
  const float* const own = w + (static_cast<int64_t>(channel) * taps + tap) * 3;
  double largest = 0;
  for (int k = 0; k < pixel_channels && tap < taps; ++k) {
    double magnitude = fabs(pixel_weight(own, pixels, k));
    if (!(magnitude <= 1e300)) magnitude = 1e308;  // not finite
    largest = magnitude > largest ? magnitude : largest;
  }
  largest = largest_of_block<encode_threads>(largest);
  if (tap == 0) {
    factor = pixel_weight_factor(largest, int64_t{taps} * pixel_channels);
    factors[channel] = factor;
  }
  __syncthreads();
  int32_t codes[pixel_channels];
  if (tap < taps) inside[tap] = round_color_weights(own, pixels, factor, codes);
  __syncthreads();
  if (tap == 0) {
    double carry = 0;
    for (int i = 0; i < taps; ++i) rounded[i] = round_inside_weight(inside[i], carry);
  }
  __syncthreads();
  if (tap >= taps) return;
  codes[3] = rounded[tap];
  for (int d = 0; d < digits; ++d) {
    uint32_t word = 0;
    for (int k = 0; k < pixel_channels; ++k)
      word |= static_cast<uint32_t>(static_cast<uint8_t>(digit_of(codes[k], d))) << (8 * k);
    *reinterpret_cast<uint32_t*>(to + int64_t{pixel_column(channel, d)} * row + place_of(pieces, tap, piece_bytes)) =
        word;
  }
}

// Threads share a tensor (pixels, channels): 32 neighbouring channels of 8 pixels at a time.
struct Columns {
  static constexpr int wide = 32, rows = threads / wide, pixels = 1024;  // pixels: of a block
  int channel, row;
  int64_t first, end;
  __device__ __forceinline__ Columns(int64_t all_pixels, int channels) {
    const Block block(blocks_for(channels, wide));
    channel = block.inner * wide + static_cast<int>(threadIdx.x) % wide;
    row = static_cast<int>(threadIdx.x) / wide;
    first = static_cast<int64_t>(block.outer) * pixels;
    end = first + pixels < all_pixels ? first + pixels : all_pixels;
  }
  static dim3 grid(int64_t all_pixels, int64_t channels) {
    return grid_of(blocks_for(channels, wide), blocks_for(all_pixels, pixels));
  }
};

__global__ void __launch_bounds__(threads)
    raise_largest(const float* dy, int64_t pixels, int channels, uint32_t* largest) {
  const Columns at(pixels, channels);
  uint32_t own = 0;
  if (at.channel < channels)
    for (int64_t pixel = at.first + at.row; pixel < at.end; pixel += Columns::rows) {
      const uint32_t magnitude = bits_of(dy[pixel * channels + at.channel]) & 0x7FFFFFFFu;
      own = magnitude > own ? magnitude : own;
    }
  __shared__ uint32_t all[threads];
  all[threadIdx.x] = own;
  __syncthreads();
  if (at.row > 0 || at.channel >= channels) return;
  for (int row = 1; row < Columns::rows; ++row) {
    const uint32_t other = all[row * Columns::wide + threadIdx.x];
    own = other > own ? other : own;
  }
  atomicMax(largest + at.channel, own);
}

// A thread takes `width` neighbouring channels of every step'th pixel, as the scales cost most. to: (pixels, padded),
// whose channels are (digits, channels).
constexpr int64_t encoded_pixels = 16;  // of a thread
template <int width>
__global__ void encode_gradients(const float* dy, int64_t pixels, int64_t step, int channels, int padded,
                                 const uint32_t* largest, int8_t* to) {
  const int64_t i = thread_index(), pieces = channels / width;
  const int channel = static_cast<int>(i % pieces) * width;
  if (i >= step * pieces) return;
  float scale[width];
#pragma unroll
  for (int c = 0; c < width; ++c) {
    scale[c] = pixel_gradient_scale(largest[channel + c]);
    if (!(scale[c] > 0)) scale[c] = 0;
  }
  for (int64_t pixel = i / pieces; pixel < pixels; pixel += step) {
    const Values<width> values = read_some(Width<width>{}, dy + pixel * channels + channel);
    uint32_t digits_of[4] = {};  // each digit in a byte
#pragma unroll
    for (int c = 0; c < width; ++c) {
      const int32_t code = scale[c] > 0 ? static_cast<int32_t>(rintf(values.at[c] * scale[c])) : 0;
      digits_of[c] = (static_cast<uint32_t>(code) + 0x808080u) ^ 0x808080u;
    }
    int8_t* const out = to + pixel * padded + channel;
#pragma unroll
    for (unsigned d = 0; d < digits; ++d) {
      const uint32_t low = chosen_bytes(digits_of[0], digits_of[1], d | (4 + d) << 4);
      const uint32_t word = chosen_bytes(low, chosen_bytes(digits_of[2], digits_of[3], d | (4 + d) << 4), 0x5410);
      if constexpr (width == 4)
        *reinterpret_cast<uint32_t*>(out + d * channels) = word;
      else
        out[d * channels] = static_cast<int8_t>(word);
    }
  }
}

// A thread for each tap of each channel. sums: rows of `row` bytes' sums for each digit of each channel.
__global__ void finish_gradients(const __grid_constant__ PixelScale pixels, const int64_t* sums, int channels, int taps,
                                 const __grid_constant__ Pieces pieces, int row, const uint32_t* largest, float* dw,
                                 bool add) {
  const int64_t i = thread_index(), count = static_cast<int64_t>(channels) * taps;
  if (i >= count) return;
  const int64_t channel = i / taps;
  const int place = place_of(pieces, static_cast<int>(i % taps), pixel_channels);
  int64_t of_tap[pixel_channels] = {};
  for (int k = 0; k < pixel_channels; ++k)
    for (int d = 0; d < digits; ++d)
      of_tap[k] += sums[(int64_t{d} * channels + channel) * row + place + k] * (int64_t{1} << (8 * d));
  const float scale = pixel_gradient_scale(largest[channel]);
  for (int c = 0; c < 3; ++c) {
    const float value = pixel_gradient(of_tap, pixels, c, scale);
    dw[i * 3 + c] = add ? dw[i * 3 + c] + value : value;
  }
}

}  // namespace

void CudaBackend::compute(const PixelValuesCall& call) {
  const int64_t count = call.x.shape.pixels();
  OCTET_LAUNCH_EACH(values_kernel, count, threads, stream_, call.pixels, call.x.u8(), count, call.y.f32());
}

const int8_t* CudaBackend::pixel_pieces(const Tensor& images, bool joined) {
  const Shape& of = images.shape;
  if (!joined) return padded_rows(images.s8(), of.pixels(), pixel_channels, from_);
  const int h = static_cast<int>((of.h + 1) / 2), w = static_cast<int>((of.w + 1) / 2);
  const int64_t count = of.n * h * w;
  int8_t* const to = from_.get<int8_t>(count * piece_bytes);
  OCTET_LAUNCH_EACH(join_pixels, count, threads, stream_, reinterpret_cast<const uint32_t*>(images.u8()), count,
                    static_cast<int>(of.h), static_cast<int>(of.w), h, w, to);
  return to;
}

void CudaBackend::compute(const PixelForwardCall& call) {
  const int channels = static_cast<int>(call.problem.y.c), taps = call.problem.kernel_h * call.problem.kernel_w;
  const Pieces pieces = pieces_of(call.problem);
  const int64_t columns = pixel_columns(channels), row = pieces.taps() * piece_bytes;
  float* const factors = pixel_constants_.get<float>(channels);
  int8_t* const weights = pixel_weights_.get<int8_t>(columns * row);
  fill_zero(weights, static_cast<size_t>(columns * row), stream_);
  OCTET_LAUNCH(encode_weights, dim3(static_cast<unsigned>(channels)), dim3(encode_threads), stream_, call.pixels,
               call.w.f32(), taps, pieces, static_cast<int>(row), factors, weights);
  ConvProblem p = pieces.p;
  p.y.c = columns;
  const int64_t images = p.x.n;
  const int8_t* const from = pixel_pieces(call.x, pieces.joined);
  for (int64_t group = 0; group < call.groups(); ++group) {
    Output output{.to = real_output({call.y.images(group * images, images)}), .pixels = {factors, channels}};
    if (!call.moments.empty())
      output.totals = exact_totals(call.moments[static_cast<size_t>(group)], channels, call.coefficients);
    const Gather gather = forward_gather(p, false);
    launch_on_tensor_cores({&gather, 1}, from + group * p.x.pixels() * piece_bytes, DType::u8, weights, row,
                           piece_bytes, output);
  }
}

void CudaBackend::compute(const PixelBackwardWeightCall& call) {
  const ConvProblem& layer = call.problem;
  const int channels = static_cast<int>(layer.y.c), taps = layer.kernel_h * layer.kernel_w;
  const Pieces pieces = pieces_of(layer);
  ConvProblem p = pieces.p;
  p.y.c *= digits;
  const int64_t padded = padded_channels(p.y.c), image_codes = p.y.h * p.y.w * padded;
  const int64_t step = std::clamp<int64_t>(slice_bytes_ / image_codes, 1, p.x.n);
  const int64_t row = pieces.taps() * p.x.c, sum_count = p.y.c * row;
  uint32_t* const largest = pixel_constants_.get<uint32_t>(channels);
  auto* const sums = pixel_sums_.get<int64_t>(sum_count);
  int8_t* const codes = pixel_gradients_.get<int8_t>(step * image_codes);
  fill_zero(largest, static_cast<size_t>(channels) * sizeof(uint32_t), stream_);
  fill_zero(sums, static_cast<size_t>(sum_count) * sizeof(int64_t), stream_);
  if (padded != p.y.c) fill_zero(codes, static_cast<size_t>(step * image_codes), stream_);
  OCTET_LAUNCH(raise_largest, Columns::grid(p.y.pixels(), channels), dim3(threads), stream_, call.dy.f32(),
               p.y.pixels(), channels, largest);
  const int8_t* const from = pixel_pieces(call.x, pieces.joined);
  const int64_t image_bytes = p.x.h * p.x.w * piece_bytes, all_images = p.x.n;
  for (int64_t first = 0; first < all_images; first += step) {
    p.x.n = p.y.n = std::min(step, all_images - first);
    const int64_t pixels = p.y.pixels();
    const float* const dy = call.dy.images(first, p.x.n).f32();
    const int64_t rows = (pixels + encoded_pixels - 1) / encoded_pixels;
    if (channels % 4 == 0)
      OCTET_LAUNCH_EACH((encode_gradients<4>), rows * channels / 4, threads, stream_, dy, pixels, rows, channels,
                        static_cast<int>(padded), largest, codes);
    else
      OCTET_LAUNCH_EACH((encode_gradients<1>), rows * channels, threads, stream_, dy, pixels, rows, channels,
                        static_cast<int>(padded), largest, codes);
    const WeightGather g = weight_gather(p);
    const WeightSplits splits = tensor_weight_splits(g, device_.processors, products_per_sum(DType::u8));
    launch_tensor_weight(g, from + first * image_bytes, DType::u8, codes, splits, {.totals = sums}, stream_);
  }
  OCTET_LAUNCH_EACH(finish_gradients, int64_t{channels} * taps, threads, stream_, call.pixels, sums, channels, taps,
                    pieces, static_cast<int>(row), largest, call.dw.tensor.f32(), call.dw.add);
}

}  // namespace octet::cuda
