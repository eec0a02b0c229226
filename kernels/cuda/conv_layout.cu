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

__global__ void transpose_weights(const int8_t* weights, int outputs, int taps, int inputs, int padded, int8_t* to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= static_cast<int64_t>(taps) * inputs * padded) return;
  const int output = static_cast<int>(i % padded);
  const int64_t rest = i / padded;  // tap * inputs + input
  to[i] = output < outputs ? weights[output * static_cast<int64_t>(taps) * inputs + rest] : int8_t{0};
}

// One pixel, 64 images and 64 channels of it.
__global__ void channel_major(const int8_t* from, int images, int pixels, int channels, int padded, int8_t* to) {
  __shared__ int8_t square[tile][tile + 4];
  const int pixel = static_cast<int>(blockIdx.x) % pixels, first_image = static_cast<int>(blockIdx.x) / pixels * tile;
  const int first_channel = static_cast<int>(blockIdx.y) * tile;
  for (int i = static_cast<int>(threadIdx.x); i < tile * tile; i += threads) {
    const int image = first_image + i / tile, channel = first_channel + i % tile;
    const bool inside = image < images && channel < channels;
    square[i % tile][i / tile] =
        inside ? from[(static_cast<int64_t>(image) * pixels + pixel) * channels + channel] : int8_t{0};
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < tile * tile; i += threads) {
    const int channel = first_channel + i / tile, image = first_image + i % tile;
    if (channel < channels && image < padded)
      to[(static_cast<int64_t>(channel) * pixels + pixel) * padded + image] = square[i / tile][i % tile];
  }
}

}  // namespace

void launch_pad_rows(const int8_t* from, int64_t rows, int length, int padded, int8_t* to, Stream stream) {
  OCTET_LAUNCH(pad_rows, dim3(blocks_for(rows * padded, threads)), dim3(threads), stream, from, rows, length, padded,
               to);
}

void launch_transpose_weights(const int8_t* weights, int outputs, int taps, int inputs, int padded, int8_t* to,
                              Stream stream) {
  const int64_t count = int64_t{taps} * inputs * padded;
  OCTET_LAUNCH(transpose_weights, dim3(blocks_for(count, threads)), dim3(threads), stream, weights, outputs, taps,
               inputs, padded, to);
}

void launch_channel_major(const int8_t* from, int images, int pixels, int channels, int padded, int8_t* to,
                          Stream stream) {
  const dim3 grid(static_cast<unsigned>(pixels) * blocks_for(padded, tile), blocks_for(channels, tile));
  OCTET_LAUNCH(channel_major, grid, dim3(threads), stream, from, images, pixels, channels, padded, to);
}

}  // namespace octet::cuda
