// Copies of codes in the layouts that tensor cores want.
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256, tile = 64;

__global__ void pad_rows(const int8_t* from, int64_t rows, int length, int padded, int8_t* to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= rows * padded) return;
  const int64_t row = i / padded;
  const int column = static_cast<int>(i % padded);
  to[i] = column < length ? from[row * length + column] : int8_t{0};
}

template <class Element>
__global__ void transpose_weights(const Element* weights, int outputs, int64_t row, int padded, Element* to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= row * padded) return;
  const int output = static_cast<int>(i % padded);
  to[i] = output < outputs ? weights[output * row + i / padded] : Element{0};
}

// One pixel, 64 images and 64 channels of it, four at a time. Neighbouring blocks read neighbouring channels.
__global__ void __launch_bounds__(threads)
    channel_major(const int8_t* from, int images, int pixels, int channels, int padded, int8_t* to) {
  constexpr int pitch = tile + 4;
  alignas(16) __shared__ int8_t square[tile * pitch];
  const int channel_tiles = (channels + tile - 1) / tile, place = static_cast<int>(blockIdx.x) / channel_tiles;
  const int first_channel = static_cast<int>(blockIdx.x) % channel_tiles * tile;
  const int pixel = place % pixels, first_image = place / pixels * tile;
  for (int i = static_cast<int>(threadIdx.x); i < tile * tile / 4; i += threads) {
    const int image = first_image + i / (tile / 4), channel = first_channel + i % (tile / 4) * 4;
    uint32_t four = 0;
    if (image < images && channel < channels) {
      const int8_t* const at = from + (static_cast<int64_t>(image) * pixels + pixel) * channels + channel;
      if (channels % 4 == 0)
        four = *reinterpret_cast<const uint32_t*>(at);
      else
        for (int c = 0; c < 4 && channel + c < channels; ++c)
          four |= static_cast<uint32_t>(static_cast<uint8_t>(at[c])) << (8 * c);
    }
    for (int c = 0; c < 4; ++c)
      square[(channel - first_channel + c) * pitch + image - first_image] = static_cast<int8_t>(four >> (8 * c));
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < tile * tile / 4; i += threads) {
    const int channel = first_channel + i / (tile / 4), image = first_image + i % (tile / 4) * 4;
    if (channel >= channels || image >= padded) continue;
    *reinterpret_cast<uint32_t*>(to + (static_cast<int64_t>(channel) * pixels + pixel) * padded + image) =
        *reinterpret_cast<const uint32_t*>(square + (channel - first_channel) * pitch + image - first_image);
  }
}

}  // namespace

void launch_pad_rows(const int8_t* from, int64_t rows, int length, int padded, int8_t* to, Stream stream) {
  OCTET_LAUNCH(pad_rows, dim3(blocks_for(rows * padded, threads)), dim3(threads), stream, from, rows, length, padded,
               to);
}

void launch_transpose_weights(const int8_t* weights, int outputs, int64_t row, int padded, int8_t* to, Stream stream) {
  OCTET_LAUNCH((transpose_weights<int8_t>), dim3(blocks_for(row * padded, threads)), dim3(threads), stream, weights,
               outputs, row, padded, to);
}
void launch_transpose_weights(const float* weights, int outputs, int64_t row, float* to, Stream stream) {
  OCTET_LAUNCH((transpose_weights<float>), dim3(blocks_for(row * outputs, threads)), dim3(threads), stream, weights,
               outputs, row, outputs, to);
}

void launch_channel_major(const int8_t* from, int images, int pixels, int channels, int padded, int8_t* to,
                          Stream stream) {
  const dim3 grid(static_cast<unsigned>(pixels) * blocks_for(padded, tile) * blocks_for(channels, tile));
  OCTET_LAUNCH(channel_major, grid, dim3(threads), stream, from, images, pixels, channels, padded, to);
}

}  // namespace octet::cuda
