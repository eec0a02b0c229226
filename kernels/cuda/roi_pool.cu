// Pools of regions. A first kernel finds the taps of every bin. Forward: a block per region. Backward: a block per tile
// of a map visits the regions that touch the tile in order, so that no two threads add to one pixel.
#define OCTET_FLUSH_SUBNORMALS  // read and written as zero, as in the CPU's passes; the build adds nvcc's -ftz=true
#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/store.h"
#include "kernels/shared/checks.h"
#include "kernels/shared/roi.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256, most_levels = static_cast<int>(RoiProblem::max_levels);

struct Level {
  const void* values;
  const float* code_scale;  // null: real values
  int h, w;
  float scale;
};
// Where a region lies: rows [top, bottom) and columns [left, right) of its level's map; level -1: nowhere.
struct Bounds {
  int level, top, bottom, left, right;
};
struct Regions {
  RoiKind kind;
  Level levels[most_levels];
  int level_count;
  int64_t regions, rois;  // in all; of an image
  int bins_h, bins_w, channels, map_channels, sampling;
  bool aligned;
  DType type;  // of the levels
  // Of each region: its bounds; of each row of bins, then of each column: the number of taps and room for most_taps.
  Bounds* bounds;
  int* counts;
  RoiTap* taps;
  int most_taps;

  __device__ __forceinline__ int lists() const { return bins_h + bins_w; }
  __device__ __forceinline__ int count(int64_t region, int list) const { return counts[region * lists() + list]; }
  __device__ __forceinline__ const RoiTap* list(int64_t region, int list) const {
    return taps + (region * lists() + list) * most_taps;
  }
  __device__ __forceinline__ int64_t pixel(const Bounds& b, int64_t region, int row, int column) const {
    return (region / rois * levels[b.level].h + row) * levels[b.level].w + column;
  }
};

// A block per region, a thread per row or column of bins.
__global__ void find_taps(const __grid_constant__ Regions p, const RoiRow* table) {
  __shared__ int low[2], high[2];  // of rows and columns; low is negative, so that it is a maximum too
  const int64_t region = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  const RoiRow row = table[region];
  const bool valid = row.valid != 0 && row.level >= 0 && row.level < static_cast<float>(p.level_count);
  const int level = valid ? static_cast<int>(row.level) : 0;
  if (thread < 2) low[thread] = -INT32_MAX, high[thread] = 0;
  __syncthreads();
  for (int list = thread; valid && list < p.lists(); list += static_cast<int>(blockDim.x)) {
    const bool of_rows = list < p.bins_h;
    const RoiAxis axis =
        roi_axis(p.kind, of_rows ? row.y1 : row.x1, of_rows ? row.y2 : row.x2, p.levels[level].scale, p.aligned,
                 p.sampling, of_rows ? p.bins_h : p.bins_w, of_rows ? p.levels[level].h : p.levels[level].w);
    RoiTap* const to = p.taps + (region * p.lists() + list) * p.most_taps;
    const int count = roi_taps(p.kind, axis, of_rows ? list : list - p.bins_h, to);
    p.counts[region * p.lists() + list] = count;
    if (count == 0) continue;
    atomicMax(&low[of_rows ? 0 : 1], -to[0].index);
    atomicMax(&high[of_rows ? 0 : 1], to[count - 1].index + 1);
  }
  __syncthreads();
  if (thread == 0) p.bounds[region] = {valid ? level : -1, -low[0], high[0], -low[1], high[1]};
}

// The pixel of all images that holds the first of the largest values of a bin, or -1 if it is empty. read(element of
// the map)
template <class Read>
__device__ __forceinline__ int64_t largest_of_bin(const Regions& p, const Bounds& bounds, int64_t region, int bin,
                                                  int channel, float& largest, const Read& read) {
  const int row_list = bin / p.bins_w, column_list = p.bins_h + bin % p.bins_w;
  int64_t best = -1;
  largest = 0;
  for (int r = 0; r < p.count(region, row_list); ++r)
    for (int c = 0; c < p.count(region, column_list); ++c) {
      const int64_t pixel =
          p.pixel(bounds, region, p.list(region, row_list)[r].index, p.list(region, column_list)[c].index);
      const float value = read(pixel * p.map_channels + channel);
      if (best >= 0 && !(value > largest)) continue;
      largest = value;
      best = pixel;
    }
  return best;
}

__global__ void __launch_bounds__(threads) pool_regions(const __grid_constant__ Regions p, void* y, float* y_scale) {
  const int64_t region = blockIdx.x;
  const Bounds bounds = p.bounds[region];
  const int outputs = p.bins_h * p.bins_w * p.channels;
  float largest_scale = 0;
  for (int level = 0; y_scale != nullptr && level < p.level_count; ++level)
    largest_scale = *p.levels[level].code_scale > largest_scale ? *p.levels[level].code_scale : largest_scale;
  if (y_scale != nullptr && region == 0 && threadIdx.x == 0) *y_scale = largest_scale;
  for (int i = static_cast<int>(threadIdx.x); i < outputs; i += threads) {
    float sum = 0;
    if (bounds.level >= 0) {
      const Level& level = p.levels[bounds.level];
      const int bin = i / p.channels, row_list = bin / p.bins_w, column_list = p.bins_h + bin % p.bins_w;
      const int channel = p.kind == RoiKind::position_sensitive ? i : i % p.channels;
      const auto read = [&](int64_t at) { return read_value(level.values, p.type, at); };
      if (p.kind == RoiKind::max) {
        largest_of_bin(p, bounds, region, bin, channel, sum, read);
      } else {
        for (int r = 0; r < p.count(region, row_list); ++r) {
          const RoiTap row = p.list(region, row_list)[r];
          float of_row = 0;
          for (int c = 0; c < p.count(region, column_list); ++c) {
            const RoiTap column = p.list(region, column_list)[c];
            of_row += column.weight * read(p.pixel(bounds, region, row.index, column.index) * p.map_channels + channel);
          }
          sum += row.weight * of_row;
        }
      }
      sum *= roi_ratio(level.code_scale, largest_scale);
    }
    write_value(y, p.type, region * outputs + i, sum);
  }
}

// The pixel of all images that each element of y took, or -1.
__global__ void __launch_bounds__(threads) choose_largest(const __grid_constant__ Regions p, int32_t* choices) {
  const int64_t region = blockIdx.x;
  const Bounds bounds = p.bounds[region];
  const int outputs = p.bins_h * p.bins_w * p.channels;
  for (int i = static_cast<int>(threadIdx.x); i < outputs; i += threads) {
    float largest;
    int64_t best = -1;
    if (bounds.level >= 0)
      best = largest_of_bin(p, bounds, region, i / p.channels, i % p.channels, largest,
                            [&](int64_t at) { return read_value(p.levels[bounds.level].values, p.type, at); });
    choices[region * outputs + i] = static_cast<int32_t>(best);
  }
}

constexpr int tile_size = 8, tile_channels = 64, most_bins = 32;  // of a block; rows or columns of bins
constexpr int own_pixels = tile_size * tile_size * tile_channels / threads;

struct Gradient {
  const void* dy;
  DType type;
  const int32_t* choices;  // of maxima
  int level, tiles_w, tiles, channel_blocks;
};

// A thread sums one channel of two rows of a tile.
__global__ void __launch_bounds__(threads)
    pool_regions_gradient(const __grid_constant__ Regions p, const __grid_constant__ Gradient g,
                          const __grid_constant__ RealOutput to) {
  __shared__ float weights[2][most_bins][tile_size];  // of a bin's row or column, for each of the tile's; 0: none
  const Level& level = p.levels[g.level];
  const Block block(static_cast<int64_t>(g.tiles) * g.channel_blocks);
  const int tile = block.inner / g.channel_blocks, thread = static_cast<int>(threadIdx.x);
  const int top = tile / g.tiles_w * tile_size, left = tile % g.tiles_w * tile_size;
  const int channel = block.inner % g.channel_blocks * tile_channels + thread % tile_channels;
  const int own_row = thread / tile_channels * (own_pixels / tile_size);  // the first of two
  const bool sensitive = p.kind == RoiKind::position_sensitive, inside = channel < p.map_channels;
  const int bins = p.bins_h * p.bins_w, own_bin = sensitive && inside ? channel / p.channels : 0;
  float sums[own_pixels] = {};
  const int64_t end = (block.outer + int64_t{1}) * p.rois;
  for (int64_t region = block.outer * p.rois; region < end; ++region) {
    const Bounds b = p.bounds[region];
    if (b.level != g.level || b.top >= top + tile_size || b.bottom <= top || b.left >= left + tile_size ||
        b.right <= left)
      continue;
    __syncthreads();
    for (int i = thread; i < p.lists() * tile_size; i += threads) {
      const int list = i / tile_size;
      weights[list < p.bins_h ? 0 : 1][list < p.bins_h ? list : list - p.bins_h][i % tile_size] = 0;
    }
    __syncthreads();
    for (int list = thread; list < p.lists(); list += threads) {
      const bool of_rows = list < p.bins_h;
      for (int i = 0; i < p.count(region, list); ++i) {
        const RoiTap tap = p.list(region, list)[i];
        const int at = tap.index - (of_rows ? top : left);
        if (at >= 0 && at < tile_size) weights[of_rows ? 0 : 1][of_rows ? list : list - p.bins_h][at] = tap.weight;
      }
    }
    __syncthreads();
    for (int bin = own_bin; inside && bin < (sensitive ? own_bin + 1 : bins); ++bin) {
      const int row_bin = bin / p.bins_w, column_bin = bin % p.bins_w;
      const int64_t at = (region * bins + bin) * p.channels + (sensitive ? channel - own_bin * p.channels : channel);
      const float dy = read_value(g.dy, g.type, at);
      const int64_t chosen = g.choices != nullptr ? g.choices[at] : 0;
#pragma unroll
      for (int i = 0; i < own_pixels; ++i) {
        const int row = own_row + i / tile_size, column = i % tile_size;
        const float of_row = weights[0][row_bin][row], of_column = weights[1][column_bin][column];
        if (of_row == 0 || of_column == 0) continue;
        if (g.choices == nullptr)
          sums[i] += of_row * of_column * dy;
        else if (p.pixel(b, region, top + row, left + column) == chosen)
          sums[i] += dy;
      }
    }
  }
#pragma unroll
  for (int i = 0; i < own_pixels; ++i) {
    const int row = top + own_row + i / tile_size, column = left + i % tile_size;
    if (!inside || row >= level.h || column >= level.w) continue;
    const int64_t pixel = (static_cast<int64_t>(block.outer) * level.h + row) * level.w + column;
    write_real(to, pixel * p.map_channels + channel, sums[i]);
  }
}

Regions describe(const RoiProblem& problem, std::span<const QTensor> levels, Tensor table, DeviceScratch& room,
                 Stream stream) {
  Regions p{};
  p.kind = problem.kind, p.aligned = problem.aligned, p.sampling = problem.sampling;
  p.level_count = static_cast<int>(problem.levels.size());
  p.regions = problem.y.n, p.rois = problem.rois;
  p.bins_h = static_cast<int>(problem.y.h), p.bins_w = static_cast<int>(problem.y.w);
  p.channels = static_cast<int>(problem.y.c), p.map_channels = static_cast<int>(problem.levels[0].c);
  REQUIRE(p.bins_h <= most_bins && p.bins_w <= most_bins, "use at most 32 x 32 bins", "a pool of regions has ",
          p.bins_h, " x ", p.bins_w, " bins");
  for (size_t i = 0; i < problem.levels.size(); ++i) {
    const Shape& shape = problem.levels[i];
    const QTensor values = i < levels.size() ? levels[i] : QTensor{};
    p.levels[i] = {values.values.data, values.scale, static_cast<int>(shape.h), static_cast<int>(shape.w),
                   problem.scales[i]};
    if (values) p.type = values.values.dtype;
    for (const auto& [bins, extent] : {std::pair(p.bins_h, p.levels[i].h), std::pair(p.bins_w, p.levels[i].w)})
      p.most_taps = std::max(p.most_taps, most_roi_taps(p.kind, p.sampling, bins, extent));
  }
  const int64_t lists = p.regions * (p.bins_h + p.bins_w), of_taps = lists * p.most_taps * int64_t{sizeof(RoiTap)};
  auto* const bytes = room.get<std::byte>(of_taps + lists * int64_t{sizeof(int)} + p.regions * int64_t{sizeof(Bounds)});
  p.taps = reinterpret_cast<RoiTap*>(bytes);
  p.counts = reinterpret_cast<int*>(bytes + of_taps);
  p.bounds = reinterpret_cast<Bounds*>(p.counts + lists);
  OCTET_LAUNCH(find_taps, grid_of(p.regions, 1), dim3(64), stream, p, table.as<RoiRow>());
  return p;
}

}  // namespace

void CudaBackend::compute(const RoiPoolForwardCall& call) {
  const auto& [problem, levels, table, y] = call;
  const Regions regions = describe(problem, levels, table, regions_, stream_);
  OCTET_LAUNCH(pool_regions, grid_of(problem.y.n, 1), dim3(threads), stream_, regions, y.values.data, y.scale);
}

void CudaBackend::compute(const RoiPoolBackwardCall& call) {
  const auto& [problem, levels, table, dy, d_levels] = call;
  const Regions regions = describe(problem, levels, table, regions_, stream_);
  int32_t* choices = nullptr;
  if (problem.kind == RoiKind::max) {
    choices = partial_.get<int32_t>(problem.y.elements());
    OCTET_LAUNCH(choose_largest, grid_of(problem.y.n, 1), dim3(threads), stream_, regions, choices);
  }
  for (size_t i = 0; i < d_levels.size(); ++i) {
    if (!d_levels[i]) continue;
    const Shape& shape = problem.levels[i];
    const auto tiles = [](int64_t extent) { return static_cast<int>((extent + tile_size - 1) / tile_size); };
    const Gradient gradient{dy.data,
                            dy.dtype,
                            choices,
                            static_cast<int>(i),
                            tiles(shape.w),
                            tiles(shape.h) * tiles(shape.w),
                            static_cast<int>((shape.c + tile_channels - 1) / tile_channels)};
    OCTET_LAUNCH(pool_regions_gradient, grid_of(int64_t{gradient.tiles} * gradient.channel_blocks, shape.n),
                 dim3(threads), stream_, regions, gradient, real_output(d_levels[i]));
  }
}

}  // namespace octet::cuda
