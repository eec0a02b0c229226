// Copies of operands in the layouts that the convolution kernels read, and of results.
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/store.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256, tile = 64;

__global__ void pad_rows(const int8_t* from, int64_t rows, int length, int padded, int8_t* to) {
  const int64_t i = thread_index();
  if (i >= rows * padded) return;
  const int64_t row = i / padded;
  const int column = static_cast<int>(i % padded);
  to[i] = column < length ? from[row * length + column] : int8_t{0};
}

template <class Element>
__global__ void transpose_weights(const Element* weights, int outputs, int64_t row, int padded, Element* to) {
  const int64_t i = thread_index();
  if (i >= row * padded) return;
  const int output = static_cast<int>(i % padded);
  to[i] = output < outputs ? weights[output * row + i / padded] : Element{0};
}

// A block copies one pixel of 64 images and 64 channels, four at a time. Neighbouring blocks read neighbouring
// channels.
__global__ void __launch_bounds__(threads)
    make_channel_major(const int8_t* from, int images, int pixels, int channels, int padded, int8_t* to) {
  constexpr int pitch = tile + 4;
  alignas(16) __shared__ int8_t square[tile * pitch];
  const Block block(blocks_for(channels, tile));
  const int place = block.outer, first_channel = block.inner * tile;
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

__global__ void copy_real(const float* from, int64_t count, const __grid_constant__ RealOutput to) {
  const int64_t i = thread_index();
  if (i < count) write_real(to, i, from[i]);
}

constexpr int64_t round_up_16(int64_t x) { return (x + 15) / 16 * 16; }

}  // namespace

void launch_copy_real(const float* from, int64_t count, const RealOutput& to, Stream stream) {
  OCTET_LAUNCH_EACH(copy_real, count, threads, stream, from, count, to);
}

const int8_t* CudaBackend::padded_rows(const int8_t* from, int64_t rows, int64_t length, DeviceScratch& room) {
  const int64_t padded = round_up_16(length);
  if (padded == length) return from;
  int8_t* const to = room.get<int8_t>(rows * padded);
  OCTET_LAUNCH_EACH(pad_rows, rows * padded, threads, stream_, from, rows, static_cast<int>(length),
                    static_cast<int>(padded), to);
  return to;
}

template <class Element>
const Element* CudaBackend::transposed_weights(const Element* weights, int64_t outputs, int64_t row, int64_t padded) {
  Element* const to = weights_.get<Element>(row * padded);
  OCTET_LAUNCH_EACH((transpose_weights<Element>), row * padded, threads, stream_, weights, static_cast<int>(outputs),
                    row, static_cast<int>(padded), to);
  return to;
}
template const int8_t* CudaBackend::transposed_weights(const int8_t*, int64_t, int64_t, int64_t);
template const float* CudaBackend::transposed_weights(const float*, int64_t, int64_t, int64_t);

const int8_t* CudaBackend::channel_major(const int8_t* from, Shape s, DeviceScratch& room) {
  const int64_t padded = round_up_16(s.n), pixels = s.h * s.w;
  int8_t* const to = room.get<int8_t>(s.c * pixels * padded);
  OCTET_LAUNCH(make_channel_major, grid_of(blocks_for(s.c, tile), pixels * blocks_for(padded, tile)), dim3(threads),
               stream_, from, static_cast<int>(s.n), static_cast<int>(pixels), static_cast<int>(s.c),
               static_cast<int>(padded), to);
  return to;
}

}  // namespace octet::cuda
