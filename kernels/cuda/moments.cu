// Moments of a convolution's real output from its chunks, and running statistics.
#include "kernels/cuda/backend.h"
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/in_order.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/tile_pixels.h"

namespace octet::cuda {
namespace {

constexpr int threads = 64;

__global__ void chunk_moments(Gather g, const float* y, float* moments) {
  const Block block(g.chunks);
  const int chunk = block.inner, channel = block.outer * threads + static_cast<int>(threadIdx.x);
  if (channel >= g.to_channels) return;
  const float* const first = y + static_cast<int64_t>(chunk_first(g, chunk)) * g.to_channels + channel;
  write_chunk_moments(g, chunk, channel, moments,
                      [&](int row) { return first[static_cast<int64_t>(row) * g.to_channels]; });
}

// items: sums, squares, lows, highs, (items, channels) each.
__global__ void sum_items(Gather g, const float* chunks_of, int items, double* to) {
  const Block block(items);
  const int channels = g.to_channels;
  const int item = block.inner, channel = block.outer * threads + static_cast<int>(threadIdx.x);
  if (channel >= channels) return;
  const int64_t step = static_cast<int64_t>(g.chunks) * channels;
  const int begin = item * g.chunks_per_item.value;
  const int end = begin + g.chunks_per_item.value < g.chunks ? begin + g.chunks_per_item.value : g.chunks;
  double sum = 0, square = 0;
  float low = __uint_as_float(0x7F800000u), high = -low;
#pragma unroll 4
  for (int chunk = begin; chunk < end; ++chunk) {
    const float* const at = chunks_of + static_cast<int64_t>(chunk) * channels + channel;
    const double first = static_cast<double>(at[0]), part = static_cast<double>(at[step]);
    const double all = static_cast<double>(chunk_count(g, chunk)) * first;
    sum += part + all;
    square += static_cast<double>(at[2 * step]) + first * (2 * part + all);
    low = at[3 * step] < low ? at[3 * step] : low;
    high = at[4 * step] > high ? at[4 * step] : high;
  }
  const int64_t item_step = static_cast<int64_t>(items) * channels;
  double* const out = to + static_cast<int64_t>(item) * channels + channel;
  out[0] = sum;
  out[item_step] = square;
  out[2 * item_step] = low;
  out[3 * item_step] = high;
}

struct ItemMoments {
  double sum, square;
  float low, high;
};

__global__ void __launch_bounds__(order_threads)
    finish_moments(const double* items_of, int items, int channels, double count, float* mean, float* variance,
                   float* min, float* max) {
  const int thread = static_cast<int>(threadIdx.x);
  const int channel = static_cast<int>(blockIdx.x) * order_columns + thread % order_columns;
  const int64_t step = static_cast<int64_t>(items) * channels;
  ItemMoments all{0, 0, __uint_as_float(0x7F800000u), -__uint_as_float(0x7F800000u)};
  in_order<ItemMoments, 64>(
      items,
      [&](int64_t item) {
        if (channel >= channels) return ItemMoments{};
        const double* const at = items_of + item * channels + channel;
        return ItemMoments{at[0], at[step], static_cast<float>(at[2 * step]), static_cast<float>(at[3 * step])};
      },
      [&](const ItemMoments& item) {
        all.sum += item.sum;
        all.square += item.square;
        all.low = item.low < all.low ? item.low : all.low;
        all.high = item.high > all.high ? item.high : all.high;
      });
  if (thread >= order_columns || channel >= channels) return;
  const double average = all.sum / count, spread = all.square / count - average * average;
  mean[channel] = static_cast<float>(average);
  variance[channel] = static_cast<float>(0 < spread ? spread : 0.0);
  if (min != nullptr) min[channel] = all.low;
  if (max != nullptr) max[channel] = all.high;
}

struct RunningItem {
  const float *batch_mean, *batch_variance;
  float *mean, *variance;
  float correction, momentum;
  int64_t channels;
};
using RunningItems = Table<RunningItem, 64>;

__global__ void running_kernel(const __grid_constant__ RunningItems items) {
  const RunningItems::Place place(items);
  const auto& [batch_mean, batch_variance, mean, variance, correction, momentum, channels] = items.at[place.item];
  const int64_t i = place.block * threads + static_cast<int>(threadIdx.x);
  if (i >= channels) return;
  mean[i] = (1 - momentum) * mean[i] + momentum * batch_mean[i];
  variance[i] = (1 - momentum) * variance[i] + momentum * (batch_variance[i] * correction);
}

}  // namespace

void launch_chunk_moments(const Gather& g, const float* y, float* moments, Stream stream) {
  OCTET_LAUNCH(chunk_moments, grid_of(g.chunks, blocks_for(g.to_channels, threads)), dim3(threads), stream, g, y,
               moments);
}

void launch_combine_moments(const Gather& g, const float* chunk_moments, double* items, Moments moments,
                            Stream stream) {
  const int count = item_count(g), channels = g.to_channels;
  OCTET_LAUNCH(sum_items, grid_of(count, blocks_for(channels, threads)), dim3(threads), stream, g, chunk_moments, count,
               items);
  OCTET_LAUNCH(finish_moments, dim3(blocks_for(channels, order_columns)), dim3(order_threads), stream, items, count,
               channels, static_cast<double>(g.pixels), moments.mean, moments.variance, moments.min, moments.max);
}

void CudaBackend::update_running(std::span<const RunningStep> steps) {
  launch_in_tables<RunningItems>(
      steps,
      [](const RunningStep& step, RunningItems& items) {
        items.add({step.batch.mean, step.batch.variance, step.mean.f32(), step.variance.f32(), step.correction(),
                   step.momentum, step.mean.elements()},
                  blocks_for(step.mean.elements(), threads));
      },
      [&](const RunningItems& items) {
        OCTET_LAUNCH(running_kernel, dim3(items.blocks), dim3(threads), stream_, items);
      });
}

}  // namespace octet::cuda
