// Copies of operands in the layouts that the convolution kernels read, and of results.
#include "kernels/cuda/backend.h"
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/store.h"
#include "kernels/cuda/table.h"
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

// Weights' codes, transposed, of many layers. A block takes a run of elements of one.
struct TransposeItem {
  const int8_t* from;
  int8_t* to;
  int64_t count;  // of `to`
  int outputs, padded, row;
};
using TransposeItems = Table<TransposeItem, 80>;
constexpr int transposed_elements = 8 * threads;  // of a block
__global__ void transpose_items(const __grid_constant__ TransposeItems items) {
  const TransposeItems::Place place(items);
  const auto& [from, to, count, outputs, padded, row] = items.at[place.item];
  const int64_t first = place.block * transposed_elements, end = first + transposed_elements;
  for (int64_t i = first + threadIdx.x; i < (end < count ? end : count); i += threads) {
    const int output = static_cast<int>(i % padded);
    to[i] = output < outputs ? from[static_cast<int64_t>(output) * row + i / padded] : int8_t{0};
  }
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

void CudaBackend::transpose_all(std::span<const QuantizeCall> calls) {
  struct Work {
    const Tensor& codes;
    int64_t row, padded, first;
  };
  std::vector<Work> works;
  int64_t bytes = 0;
  for (const QuantizeCall& call : calls) {
    const Tensor& codes = call.to.values;
    if (codes.dtype != DType::s8 || codes.shape.c == 1) continue;  // real, or of a depthwise layer
    works.push_back({codes, codes.elements() / codes.shape.n, padded_channels(codes.shape.n), bytes});
    bytes += works.back().row * works.back().padded;
  }
  int8_t* const room = transposed_room_.get<int8_t>(bytes);
  transposed_.clear();
  launch_in_tables<TransposeItems>(
      works,
      [&](const Work& work, TransposeItems& items) {
        const int64_t count = work.row * work.padded;
        transposed_[work.codes.data] = {room + work.first, count};
        items.add({work.codes.s8(), room + work.first, count, static_cast<int>(work.codes.shape.n),
                   static_cast<int>(work.padded), static_cast<int>(work.row)},
                  blocks_for(count, transposed_elements));
      },
      [&](const TransposeItems& items) {
        OCTET_LAUNCH(transpose_items, dim3(static_cast<unsigned>(items.blocks)), dim3(threads), stream_, items);
      });
}

void CudaBackend::forget_transposed(const void* codes, size_t bytes) {
  const void* const end = static_cast<const char*>(codes) + bytes;
  transposed_.erase(transposed_.lower_bound(codes), transposed_.lower_bound(end));
}

template <class Element>
const Element* CudaBackend::transposed_weights(const Element* weights, int64_t outputs, int64_t row, int64_t padded) {
  const auto known = transposed_.find(weights);
  if (std::is_same_v<Element, int8_t> && known != transposed_.end() && known->second.bytes == row * padded)
    return reinterpret_cast<const Element*>(known->second.codes);
  Element* const to = weights_.get<Element>(row * padded);
  OCTET_LAUNCH_EACH((transpose_weights<Element>), row * padded, threads, stream_, weights, static_cast<int>(outputs),
                    row, static_cast<int>(padded), to);
  return to;
}
template const int8_t* CudaBackend::transposed_weights(const int8_t*, int64_t, int64_t, int64_t);
template const float* CudaBackend::transposed_weights(const float*, int64_t, int64_t, int64_t);

}  // namespace octet::cuda
