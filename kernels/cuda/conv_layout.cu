// Copies of operands in the layouts that the convolution kernels read, and of results.
#include "kernels/cuda/backend.h"
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/store.h"
#include "kernels/shared/sums.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256;

__global__ void pad_rows(const int8_t* from, int64_t rows, int length, int padded, int8_t* to) {
  const int64_t i = thread_index();
  if (i >= rows * padded) return;
  const int64_t row = i / padded;
  const int column = static_cast<int>(i % padded);
  to[i] = column < length ? from[row * length + column] : int8_t{0};
}

// One element of the images x of a convolution, padded to a shape; zero outside the image.
__global__ void pad_images(const float* from, const __grid_constant__ ConvProblem p,
                           const __grid_constant__ Shape padded, float* to) {
  const int64_t i = thread_index();
  if (i >= padded.elements()) return;
  const int h = static_cast<int>(p.x.h), w = static_cast<int>(p.x.w), channels = static_cast<int>(p.x.c);
  const int length = static_cast<int>(padded.w) * channels;
  const int64_t line = i / length, image = line / padded.h;
  const int column = static_cast<int>(i - line * length) - p.pad_w * channels;
  const int row = static_cast<int>(line - image * padded.h) - p.pad_h;
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

__global__ void copy_real(const float* from, int64_t count, const __grid_constant__ RealOutput to) {
  const int64_t i = thread_index();
  if (i < count) write_real(to, i, from[i]);
}

}  // namespace

void launch_copy_real(const float* from, int64_t count, const RealOutput& to, Stream stream) {
  OCTET_LAUNCH_EACH(copy_real, count, threads, stream, from, count, to);
}

const float* CudaBackend::padded_images(const ConvProblem& problem, const float* x, DeviceScratch& room) {
  const ConvProblem p = as_pixel_list(problem);
  const Shape padded = padded_shape(p);
  if (padded == p.x) return x;
  float* const to = room.get<float>(padded.elements());
  OCTET_LAUNCH_EACH(pad_images, padded.elements(), threads, stream_, x, p, padded, to);
  return to;
}

const int8_t* CudaBackend::padded_rows(const int8_t* from, int64_t rows, int64_t length, DeviceScratch& room) {
  const int64_t padded = padded_channels(length);
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

}  // namespace octet::cuda
