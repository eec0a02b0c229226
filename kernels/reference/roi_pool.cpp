// Pools of regions.
#include <algorithm>
#include <vector>

#include "kernels/reference/backend.h"
#include "kernels/reference/element.h"
#include "kernels/shared/checks.h"
#include "kernels/shared/roi.h"

namespace octet {
namespace {
using namespace reference;

// Calls visit(region, level, taps) for each region that there is, in order.
template <class Visit>
void for_regions(const RoiProblem& problem, Tensor table, const Visit& visit) {
  RoiTaps taps(problem);
  for (int64_t region = 0; region < problem.y.n; ++region) {
    const RoiRow& row = table.as<RoiRow>()[region];
    if (row.valid == 0) continue;
    const size_t level = roi_level(problem, row);
    taps.find(row, level);
    visit(region, level, taps);
  }
}
// Calls visit(output element, image's channel, row bin, column bin) for the elements of a region, in order.
template <class Visit>
void for_outputs(const RoiProblem& p, int64_t region, const Visit& visit) {
  const int64_t bins = p.y.h * p.y.w;
  for (int64_t bin = 0; bin < bins; ++bin)
    for (int64_t c = 0; c < p.y.c; ++c)
      visit((region * bins + bin) * p.y.c + c, p.kind == RoiKind::position_sensitive ? bin * p.y.c + c : c, bin / p.y.w,
            bin % p.y.w);
}
int64_t element_of(const Shape& level, int64_t image, int64_t row, int64_t column, int64_t channel) {
  return ((image * level.h + row) * level.w + column) * level.c + channel;
}
// The first of the largest elements in row order, or -1 if a bin is empty.
template <class Element>
int64_t largest_of(const RoiTaps& taps, int64_t row_bin, int64_t column_bin, Tensor values, const Element& element) {
  int64_t best = -1;
  for (const RoiTap& row : taps.rows(row_bin))
    for (const RoiTap& column : taps.columns(column_bin)) {
      const int64_t i = element(row.index, column.index);
      if (best < 0 || read(values, i) > read(values, best)) best = i;
    }
  return best;
}
}  // namespace

void ReferenceBackend::compute(const RoiPoolForwardCall& call) {
  const RoiProblem& problem = call.problem;
  float scale = 0;
  for (const QTensor& level : call.levels)
    if (!level.real()) scale = std::max(scale, *level.scale);
  memset(call.y.values.data, 0, call.y.values.bytes());
  for_regions(problem, call.table, [&](int64_t region, size_t level, const RoiTaps& taps) {
    const Tensor values = call.levels[level].values;
    for_outputs(problem, region, [&](int64_t i, int64_t channel, int64_t row_bin, int64_t column_bin) {
      const auto element = [&](int64_t h, int64_t w) {
        return element_of(values.shape, region / problem.rois, h, w, channel);
      };
      float sum = 0;
      if (problem.kind == RoiKind::max) {
        const int64_t best = largest_of(taps, row_bin, column_bin, values, element);
        sum = best < 0 ? 0 : read(values, best);
      } else {
        for (const RoiTap& row : taps.rows(row_bin)) {
          float of_row = 0;
          for (const RoiTap& column : taps.columns(column_bin))
            of_row += column.weight * read(values, element(row.index, column.index));
          sum += row.weight * of_row;
        }
      }
      sum *= roi_ratio(call.levels[level].scale, scale);
      if (call.y.real())
        write(call.y.values, i, sum);
      else
        write_code(call.y.values, i, static_cast<int>(round_nearest(sum)));
    });
  });
  if (!call.y.real()) *call.y.scale = scale;
}

void ReferenceBackend::compute(const RoiPoolBackwardCall& call) {
  const RoiProblem& problem = call.problem;
  std::vector<std::vector<float>> sums;
  for (const Shape& level : problem.levels) sums.emplace_back(static_cast<size_t>(level.elements()));
  for_regions(problem, call.table, [&](int64_t region, size_t level, const RoiTaps& taps) {
    for_outputs(problem, region, [&](int64_t i, int64_t channel, int64_t row_bin, int64_t column_bin) {
      const auto element = [&](int64_t h, int64_t w) {
        return element_of(problem.levels[level], region / problem.rois, h, w, channel);
      };
      if (problem.kind == RoiKind::max) {
        const int64_t best = largest_of(taps, row_bin, column_bin, call.levels[level].values, element);
        if (best >= 0) sums[level][static_cast<size_t>(best)] += read(call.dy, i);
        return;
      }
      for (const RoiTap& row : taps.rows(row_bin))
        for (const RoiTap& column : taps.columns(column_bin))
          sums[level][static_cast<size_t>(element(row.index, column.index))] +=
              row.weight * column.weight * read(call.dy, i);
    });
  });
  for (size_t level = 0; level < sums.size(); ++level)
    for (int64_t i = 0; call.d_levels[level] && i < call.d_levels[level].tensor.elements(); ++i)
      write(call.d_levels[level], i, sums[level][static_cast<size_t>(i)]);
}

}  // namespace octet
