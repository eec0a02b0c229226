// Copies of operands in the layouts that the convolution kernels read, and of results.
#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/store.h"
#include "kernels/shared/sums.h"

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

// One element of padded images, zero outside the image.
__global__ void pad_images(const float* from, int h, int w, int channels, int above, int before, int64_t count,
                           int padded_h, int padded_w, float* to) {
  const int64_t i = thread_index();
  if (i >= count) return;
  const int length = padded_w * channels;
  const int64_t line = i / length, image = line / padded_h;
  const int column = static_cast<int>(i - line * length) - before * channels;
  const int row = static_cast<int>(line - image * padded_h) - above;
  const bool inside = row >= 0 && row < h && column >= 0 && column < w * channels;
  to[i] = inside ? from[(image * h + row) * w * channels + column] : 0.0f;
}

template <class Element>
__global__ void transpose_weights(const Element* weights, int outputs, int64_t row, int padded, Element* to) {
  const int64_t i = thread_index();
  if (i >= row * padded) return;
  const int output = static_cast<int>(i % padded);
  to[i] = output < outputs ? weights[output * row + i / padded] : Element{0};
}

// The four channels at `at`, those before `end` alone.
__device__ __forceinline__ uint32_t four_channels(const int8_t* at, int channel, int end, bool aligned) {
  if (aligned) return *reinterpret_cast<const uint32_t*>(at);
  uint32_t four = 0;
  for (int c = 0; c < 4 && channel + c < end; ++c)
    four |= static_cast<uint32_t>(static_cast<uint8_t>(at[c])) << (8 * c);
  return four;
}

// A block copies one pixel of 64 images and 64 channels. A thread turns four images of four channels, then writes
// sixteen images of one channel. Neighbouring blocks read neighbouring channels.
__global__ void __launch_bounds__(threads)
    make_channel_major(const int8_t* from, int images, int pixels, int channels, int padded, int8_t* to) {
  constexpr int words = tile / 4, pitch = words + 1;
  static_assert(threads == words * words && threads * 16 == tile * tile);
  __shared__ uint32_t square[tile * pitch];
  const Block block(blocks_for(channels, tile));
  const int place = block.outer, first_channel = block.inner * tile, thread = static_cast<int>(threadIdx.x);
  const int pixel = place % pixels, first_image = place / pixels * tile;
  const int own = thread % words * 4, channel = first_channel + own, image = first_image + thread / words * 4;
  uint32_t four[4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (image + i < images && channel < channels)
      four[i] = four_channels(from + (static_cast<int64_t>(image + i) * pixels + pixel) * channels + channel, channel,
                              channels, channels % 4 == 0);
#pragma unroll
  for (int half = 0; half < 2; ++half) {  // two channels of four images each
    const unsigned pair = half == 0 ? 0x5140 : 0x7362;
    const uint32_t first = chosen_bytes(four[0], four[1], pair), last = chosen_bytes(four[2], four[3], pair);
    square[(own + 2 * half) * pitch + thread / words] = chosen_bytes(first, last, 0x5410);
    square[(own + 2 * half + 1) * pitch + thread / words] = chosen_bytes(first, last, 0x7632);
  }
  __syncthreads();
  const int row = thread / 4, column = thread % 4 * 4;
  if (first_channel + row >= channels || first_image + column * 4 >= padded) return;
  Sixteen sixteen;
#pragma unroll
  for (int i = 0; i < 4; ++i) sixteen.word[i] = square[row * pitch + column + i];
  write_sixteen(to + (static_cast<int64_t>(first_channel + row) * pixels + pixel) * padded + first_image + column * 4,
                sixteen);
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

const float* CudaBackend::padded_images(const ConvProblem& problem, const float* x, DeviceScratch& room) {
  const ConvProblem p = as_pixel_list(problem);
  const Shape padded = padded_shape(p);
  if (padded == p.x) return x;
  float* const to = room.get<float>(padded.elements());
  OCTET_LAUNCH_EACH(pad_images, padded.elements(), threads, stream_, x, static_cast<int>(p.x.h),
                    static_cast<int>(p.x.w), static_cast<int>(p.x.c), p.pad_h, p.pad_w, padded.elements(),
                    static_cast<int>(padded.h), static_cast<int>(padded.w), to);
  return to;
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
