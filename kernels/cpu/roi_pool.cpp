// Pools of regions: loops over channels that the compiler turns into vectors. Forward gives regions to threads.
// Backward gives blocks of an image's channels to threads, so that a thread adds the regions of a pixel in order.
#include <omp.h>

#include <algorithm>
#include <cstring>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/detection_loops.h"
#include "kernels/cpu/elements.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/parallel.h"
#include "kernels/shared/roi.h"

namespace octet::cpu {
namespace {
constexpr int64_t region_tile = 64;  // channels whose sums wait on the stack, or of a block

// The largest values of a bin, and where they are. image: its first pixel's first of these channels. place(row,
// column): the offset of a pixel.
template <class T, class Place>
void largest_of_bin(std::span<const RoiTap> rows, std::span<const RoiTap> columns, const T* image, const Place& place,
                    int64_t count, float* largest, int32_t* chosen) {
  std::fill_n(largest, count, 0.0f);
  std::fill_n(chosen, count, -1);
  for (const RoiTap& row : rows)
    for (const RoiTap& column : columns) {
      const int64_t offset = place(row.index, column.index);
      for (int64_t c = 0; c < count; ++c) {
        const float value = as_float(image[offset + c]);
        const bool more = chosen[c] < 0 || value > largest[c];
        largest[c] = more ? value : largest[c];
        chosen[c] = more ? static_cast<int32_t>(row.index << 16 | column.index) : chosen[c];
      }
    }
}

// One region of y. out: its first element. ratio: that of its level's codes.
template <class T>
void pool_region(const DetectionLoops& loops, const RoiProblem& p, const RoiTaps& taps, const Tensor& level, int64_t n,
                 float ratio, T* out) {
  const Shape& shape = level.shape;
  const T* const image = level.as<T>() + n * shape.h * shape.w * shape.c;
  const auto place = [&](int64_t h, int64_t w) { return (h * shape.w + w) * shape.c; };
  for (int64_t bin = 0; bin < p.y.h * p.y.w; ++bin) {
    const auto rows = taps.rows(bin / p.y.w), columns = taps.columns(bin % p.y.w);
    const RoiBin in{
        rows.data(),       columns.data(), static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns.size()),
        shape.w * shape.c, shape.c};
    const T* const from = p.kind == RoiKind::position_sensitive ? image + bin * p.y.c : image;
    for (int64_t first = 0; first < p.y.c; first += region_tile) {
      const int64_t count = std::min(region_tile, p.y.c - first);
      float values[region_tile];
      int32_t chosen[region_tile];
      if (p.kind == RoiKind::max)
        largest_of_bin(rows, columns, from + first, place, count, values, chosen);
      else
        loops.average_bin[static_cast<size_t>(level.dtype)](in, from + first, count, values);
      for (int64_t c = 0; c < count; ++c) out[bin * p.y.c + first + c] = as_stored<T>(values[c] * ratio);
    }
  }
}

// A block of channels of one image and level: what add_region() needs to add a region's gradients.
struct Block {
  const RoiProblem& problem;
  const Shape& shape;    // of the level
  int64_t first, count;  // channels
  float* sums;           // (h, w, count)
};
template <class X, class G>
void add_region(const Block& block, const RoiTaps& taps, const X* image, const G* dy) {
  const RoiProblem& p = block.problem;
  for (int64_t bin = 0; bin < p.y.h * p.y.w; ++bin) {
    // The channels of this bin that the block has, as channels of the map and of y.
    const int64_t shift = p.kind == RoiKind::position_sensitive ? bin * p.y.c : 0;
    const int64_t first = std::max(block.first, shift), end = std::min(block.first + block.count, shift + p.y.c);
    if (first >= end) continue;
    const int64_t count = end - first;
    const G* const from = dy + bin * p.y.c + first - shift;
    float* const to = block.sums + first - block.first;
    const auto rows = taps.rows(bin / p.y.w), columns = taps.columns(bin % p.y.w);
    if (p.kind == RoiKind::max) {
      float largest[region_tile];
      int32_t chosen[region_tile];
      const auto place = [&](int64_t h, int64_t w) { return (h * block.shape.w + w) * block.shape.c; };
      largest_of_bin(rows, columns, image + first, place, count, largest, chosen);
      for (int64_t c = 0; c < count; ++c)
        if (chosen[c] >= 0)
          to[((chosen[c] >> 16) * block.shape.w + (chosen[c] & 0xFFFF)) * block.count + c] += as_float(from[c]);
      continue;
    }
    float gradient[region_tile];
    for (int64_t c = 0; c < count; ++c) gradient[c] = as_float(from[c]);
    for (const RoiTap& row : rows)
      for (const RoiTap& column : columns) {
        const float weight = row.weight * column.weight;
        float* const pixel = to + (row.index * block.shape.w + column.index) * block.count;
        for (int64_t c = 0; c < count; ++c) pixel[c] += weight * gradient[c];
      }
  }
}

void write_block(const Block& block, int64_t n, const Into& to) {
  const int64_t pixels = block.shape.h * block.shape.w;
  with_real_type(to.tensor.dtype, [&]<class D>(D) {
    D* const image = to.tensor.as<D>() + n * pixels * block.shape.c + block.first;
    for (int64_t pixel = 0; pixel < pixels; ++pixel)
      for (int64_t c = 0; c < block.count; ++c)
        write(image + pixel * block.shape.c, c, block.sums[pixel * block.count + c], to.add);
  });
}
}  // namespace

void CpuBackend::compute(const RoiPoolForwardCall& call) {
  const RoiProblem& problem = call.problem;
  float scale = 0;
  for (const QTensor& level : call.levels)
    if (!level.real()) scale = std::max(scale, *level.scale);
  const int64_t elements = call.y.values.elements() / call.y.values.shape.n;
  with_type(call.y.values.dtype, [&]<class T>(T) {
    parallel_pieces(threads_, problem.y.n, 16, [&](int64_t first, int64_t count) {
      RoiTaps taps(problem);
      for (int64_t region = first; region < first + count; ++region) {
        const RoiRow& row = call.table.as<RoiRow>()[region];
        T* const out = call.y.values.as<T>() + region * elements;
        if (row.valid == 0) {
          std::fill_n(out, elements, T{});
          continue;
        }
        const size_t level = roi_level(problem, row);
        taps.find(row, level);
        pool_region(*kernels_of(options_.isa).detection, problem, taps, call.levels[level].values,
                    region / problem.rois, roi_ratio(call.levels[level].scale, scale), out);
      }
    });
  });
  if (!call.y.real()) *call.y.scale = scale;
}

void CpuBackend::compute(const RoiPoolBackwardCall& call) {
  const RoiProblem& problem = call.problem;
  const int64_t channels = problem.levels[0].c, blocks = (channels + region_tile - 1) / region_tile,
                images = problem.levels[0].n;
  int64_t room = 0;  // of a thread
  for (const Shape& level : problem.levels) room = std::max(room, level.h * level.w * std::min(region_tile, channels));
  float* const all_sums = sums_.get<float>(static_cast<size_t>(room * threads_.count));
  const int64_t elements = call.dy.elements() / call.dy.shape.n, tasks = images * blocks;
  parallel_for(threads_, tasks * static_cast<int64_t>(call.d_levels.size()), [&](int64_t task) {
    const size_t level = static_cast<size_t>(task / tasks);
    if (!call.d_levels[level]) return;
    const int64_t n = task % tasks / blocks, first = task % blocks * region_tile;
    const Shape& shape = problem.levels[level];
    const Block block{problem, shape, first, std::min(region_tile, channels - first),
                      all_sums + room * omp_get_thread_num()};
    std::fill_n(block.sums, shape.h * shape.w * block.count, 0.0f);
    RoiTaps taps(problem);
    const Tensor values = call.levels.empty() ? Tensor{nullptr, shape, DType::f32} : call.levels[level].values;
    for (int64_t region = n * problem.rois; region < (n + 1) * problem.rois; ++region) {
      const RoiRow& row = call.table.as<RoiRow>()[region];
      if (row.valid == 0 || roi_level(problem, row) != level) continue;
      taps.find(row, level);
      with_type(values.dtype, [&]<class X>(X) {
        const X* const image = values.as<X>() + n * shape.h * shape.w * shape.c;
        with_real_type(call.dy.dtype,
                       [&]<class G>(G) { add_region(block, taps, image, call.dy.as<G>() + region * elements); });
      });
    }
    write_block(block, n, call.d_levels[level]);
  });
}

}  // namespace octet::cpu
