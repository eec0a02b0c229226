// The sums of the norm's backward pass, cut and added as shared/sums.h defines.
#define OCTET_FLUSH_SUBNORMALS  // read and written as zero, as in the CPU's passes; the build adds nvcc's -ftz=true
#include "kernels/cuda/affine.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/in_order.h"
#include "kernels/cuda/values.h"
#include "kernels/shared/sums.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256, chunk_threads = 128;  // a block of reduce_chunks takes several chunks

// A thread takes some neighbouring columns of the period over the rows of one chunk. lanes: threads of one chunk.
template <int width, class Numbers>
__global__ void __launch_bounds__(chunk_threads)
    reduce_chunks(const __grid_constant__ Numbers numbers, const float* mean, int64_t count, int64_t chunks,
                  int64_t chunk, int64_t period, int lanes, float* partial) {
  const Width<width> some;
  const int thread = static_cast<int>(threadIdx.x), together = chunk_threads / lanes;
  const Block block(blocks_for(chunks, together));
  const int64_t column = (static_cast<int64_t>(block.outer) * lanes + thread % lanes) * width;
  const int64_t row = static_cast<int64_t>(block.inner) * together + thread / lanes;
  if (row >= chunks) return;
  const int64_t first = row * chunk, end = first + chunk < count ? first + chunk : count;
  const int channel = static_cast<int>(column % numbers.channels);
  Values<width> center = {};
  if (mean != nullptr) center = of_channel(some, mean, channel);
  Values<width> sum = {}, dot = {};
  // Four elements, asked for together: their sums take them in this order.
  const auto add_four = [&](int64_t i, int64_t step, int some_of_them) {
    typename Numbers::template Fetched<width> fetched[4] = {};
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (k < some_of_them) fetched[k] = numbers.fetch(some, i + k * step);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (k >= some_of_them) break;
      const Values<width> number = numbers.number(some, fetched[k]), dz = numbers.gradient(some, fetched[k]);
#pragma unroll
      for (int e = 0; e < width; ++e) {
        sum.at[e] += dz.at[e];
        dot.at[e] += dz.at[e] * (number.at[e] - center.at[e]);
      }
    }
  };
  const int64_t quarter = affine_quarter(end - first, period);
  for (int64_t i = first + column; i < first + quarter; i += period) add_four(i, quarter, 4);
  int64_t i = first + 4 * quarter + column;
  for (; i + 3 * period < end; i += 4 * period) add_four(i, period, 4);
  if (i < end) add_four(i, period, static_cast<int>((end - i + period - 1) / period));
  float* const to = partial + row * 2 * period + column;
  write_some(to, sum);
  write_some(to + period, dot);
}

// (chunks, 2, period) floats to (chunks, 2, channels) doubles.
__global__ void reduce_columns(const float* partial, int64_t rows, int64_t period, int64_t channels, double* chunks) {
  const int64_t i = thread_index();
  if (i >= rows * channels) return;
  const float* const row = partial + i / channels * period;
  double sum = 0;
  for (int64_t column = i % channels; column < period; column += channels) sum += static_cast<double>(row[column]);
  chunks[i] = sum;
}

template <class Element>
__global__ void __launch_bounds__(order_threads)
    reduce_rows(const Element* chunks, int64_t rows, int64_t length, double* sums) {
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t column = static_cast<int64_t>(blockIdx.x) * order_columns + thread % order_columns;
  double sum = 0;
  in_order<double, 256>(
      rows, [&](int64_t row) { return column < length ? static_cast<double>(chunks[row * length + column]) : 0.0; },
      [&](double value) { sum += value; });
  if (thread < order_columns && column < length) sums[column] = sum;
}

}  // namespace

int64_t affine_partial_floats(int64_t elements, int64_t channels) {
  const int64_t chunk = affine_chunk(channels);
  return (elements + chunk - 1) / chunk * 2 * affine_period(channels);
}

void launch_affine_reduce(const AffineBackwardValues& values, const float* mean, int64_t count, float* partial,
                          double* chunks, double* sums, Stream stream) {
  const int64_t channels = values.channels, period = affine_period(channels), chunk = affine_chunk(channels);
  const int64_t rows = (count + chunk - 1) / chunk;
  with_types<true, false>(values, [&](const auto& numbers) {
    using Numbers = std::decay_t<decltype(numbers)>;
    const auto launch = [&]<int width>(Width<width>) {
      int lanes = 32;
      while (period % (lanes * width) != 0) lanes /= 2;  // the period is a multiple of 64
      OCTET_LAUNCH((reduce_chunks<width, Numbers>),
                   grid_of(blocks_for(rows, chunk_threads / lanes), period / (lanes * width)), dim3(chunk_threads),
                   stream, numbers, mean, count, rows, chunk, period, lanes, partial);
    };
    const auto fits = [&](int width) { return numbers.fits(width) && neighbours_align(width, mean, DType::f32); };
    if (fits(8))
      launch(Width<8>{});
    else if (fits(2))
      launch(Width<2>{});
    else
      launch(Width<1>{});
  });
  const dim3 columns(blocks_for(2 * channels, order_columns));
  if (period == channels) {
    OCTET_LAUNCH((reduce_rows<float>), columns, dim3(order_threads), stream, partial, rows, 2 * channels, sums);
    return;
  }
  OCTET_LAUNCH_EACH(reduce_columns, rows * 2 * channels, threads, stream, partial, rows * 2, period, channels, chunks);
  OCTET_LAUNCH((reduce_rows<double>), columns, dim3(order_threads), stream, chunks, rows, 2 * channels, sums);
}

}  // namespace octet::cuda
