// The weight gradient of TableConvolution.
#include <omp.h>

#include <algorithm>
#include <cstring>

#include "kernels/cpu/conv_table.h"
#include "kernels/shared/sums.h"

namespace octet::cpu {
namespace {

// dw (+)= scale * the sum of all slots, added as integers (or, in slot order, as doubles). A slot's panel is
// [m][lanes].
template <class Sum, class Total>
void write_panel(const Sum* sums, int64_t slots, int64_t slot_step, int64_t m_count, int64_t panel_lanes, int64_t lanes,
                 float scale, bool add, float* dw) {
  constexpr int64_t strip = 16;  // so that rows of dw are written a cache line at a time
  float values[strip][2 * block_lanes];
  for (int64_t first = 0; first < m_count; first += strip) {
    const int64_t count = std::min(strip, m_count - first);
    for (int64_t m = 0; m < count; ++m) {
      const Sum* const at = sums + (first + m) * panel_lanes;
      if (slots == 1)
        for (int64_t lane = 0; lane < panel_lanes; ++lane) values[m][lane] = static_cast<float>(at[lane]) * scale;
      else
        for (int64_t lane = 0; lane < lanes; ++lane) {
          Total total = 0;
          for (int64_t slot = 0; slot < slots; ++slot) total += at[slot * slot_step + lane];
          values[m][lane] = static_cast<float>(total) * scale;
        }
    }
    for (int64_t lane = 0; lane < lanes; ++lane) {
      float* const out = dw + lane * m_count + first;
      if (add)
        for (int64_t m = 0; m < count; ++m) out[m] += values[m][lane];
      else
        for (int64_t m = 0; m < count; ++m) out[m] = values[m][lane];
    }
  }
}

}  // namespace

void TableConvolution::pack_planes(const WeightGradientPlan& plan, Tensor x, int64_t item, char* packed) const {
  const auto transpose = kernels_.packing_of(x.dtype).transpose;
  const int64_t images = plan.images_of(item), unit = kernels_.packed_bytes(), source = kernels_.source_bytes();
  const char* from = x.as<const char>() + item * plan.images * plan.x.h * plan.x.w * plan.x.c * source;
  const bool as_it_is = plan.stride_h == 1 && plan.stride_w == 1 && plan.pad_h == 0 && plan.pad_w == 0 &&
                        plan.rows == plan.x.h && plan.columns == plan.x.w;
  if (as_it_is)
    return transpose(from, plan.x.c, images * plan.rows * plan.columns, plan.x.c, packed, plan.plane_elements);
  for (int64_t phase_h = 0; phase_h < plan.phases_h; ++phase_h)
    for (int64_t phase_w = 0; phase_w < plan.phases_w; ++phase_w) {
      const int64_t phase = phase_h * plan.phases_w + phase_w;
      const int64_t first = phase_w >= plan.pad_w ? 0 : ceil_div(plan.pad_w - phase_w, plan.stride_w);
      const int64_t end = std::min(plan.columns, ceil_div(plan.x.w + plan.pad_w - phase_w, plan.stride_w));
      const int64_t column = phase_w + first * plan.stride_w - plan.pad_w;
      if (first >= end) continue;
      for (int64_t image = 0; image < images; ++image)
        for (int64_t row = 0; row < plan.rows; ++row) {
          const int64_t source_row = row * plan.stride_h + phase_h - plan.pad_h;
          if (source_row < 0 || source_row >= plan.x.h) continue;
          transpose(from + ((image * plan.x.h + source_row) * plan.x.w + column) * plan.x.c * source,
                    plan.stride_w * plan.x.c, end - first, plan.x.c,
                    packed + (((phase * plan.images + image) * plan.rows + row) * plan.columns + first) * unit,
                    plan.plane_elements);
        }
    }
}

// The rows of dy as far apart as those of the planes.
void TableConvolution::spread_rows(const WeightGradientPlan& plan, const char* dy, int64_t item, char* spread) const {
  const int64_t pixel = plan.dy.c * kernels_.source_bytes(), row_bytes = plan.dy.w * pixel;
  for (int64_t image = 0; image < plan.images_of(item); ++image)
    for (int64_t row = 0; row < plan.dy.h; ++row, dy += row_bytes)
      memcpy(spread + (image * plan.rows + row) * plan.columns * pixel, dy, static_cast<size_t>(row_bytes));
}

// Sums live in slots: one per range of work items that an int32 can hold (codes; at least one per thread while they are
// small), or one per item (real values, whose order must not depend on threads). A thread's share of the work is (slot,
// part of the panels); large gradients are split over panels rather than copied.
void TableConvolution::backward_weight(const ConvProblem& p, QTensor x, QTensor dy, Into dw) {
  check(p, x, dy);
  if (depthwise_ != nullptr && is_depthwise(p)) return backward_weight_depthwise(p, x, dy, dw);
  const WeightGradientPlan* found = nullptr;
  {
    const Key key = key_of(p);
    auto at = weight_plans_.find(key);
    if (at == weight_plans_.end()) at = weight_plans_.emplace(key, plan_backward_weight(p, kernels_)).first;
    found = &at->second;
  }
  const WeightGradientPlan& plan = *found;
  const Packing& packing = kernels_.packing_of(x.values.dtype);
  REQUIRE(kernels_.real || plan.pixels_per_item() <= products_per_sum(x.values.dtype), "train on smaller images",
          "the weight gradient of a ", plan.dy.h, "x", plan.dy.w, " output does not fit int32 sums");
  const int blocks = blocks_of(plan.group_dy), step = kernels_.max_blocks, group_panels = (blocks + step - 1) / step;
  const int64_t panels = static_cast<int64_t>(plan.groups) * group_panels;
  const int64_t m_count = static_cast<int64_t>(p.kernel_h) * p.kernel_w * plan.group_x;
  const int64_t slot_sums = plan.groups * blocks * m_count * block_lanes;
  const int64_t items_per_sum = kernels_.real ? 1 : products_per_sum(x.values.dtype) / plan.pixels_per_item();
  int64_t slots = ceil_div(plan.items, items_per_sum), parts = 1;
  if (slots < threads_) {
    if (!kernels_.real && slot_sums <= small_gradient && plan.items > 1)
      slots = std::min<int64_t>(threads_, plan.items);
    else
      parts = std::min<int64_t>(threads_, panels);
  }
  // Sums of a single item are written as soon as a panel has them: each part needs room for one panel.
  const bool at_once = plan.items == 1;
  const int64_t panel_sums = step * block_lanes * m_count;
  auto* sums = sums_.get<int32_t>(static_cast<size_t>(at_once ? parts * panel_sums : slots * slot_sums));
  const int64_t plane_bytes =
      plan.x.c * plan.plane_elements * kernels_.packed_bytes() + 64 + 4 * kernels_.word_multiple;
  const int64_t dy_words = plan.segments_of(0) * plan.words * kernels_.max_blocks;
  const int64_t spread_bytes = plan.spread() ? plan.pixels_of(0) * plan.dy.c * kernels_.source_bytes() : 0;
  for (Workspace& workspace : workspaces_) {
    workspace.x.get(static_cast<size_t>(plane_bytes));
    workspace.dy.get(static_cast<size_t>(dy_words * 64));
    workspace.spread.get(static_cast<size_t>(spread_bytes));
  }
  const float scale = kernels_.real ? 1.0f : *x.scale * *dy.scale;
  const auto write = [&](int64_t panel, const int32_t* at) {
    const int64_t group = panel / group_panels, first = panel % group_panels * step;
    const int64_t panel_lanes = std::min<int64_t>(step, blocks - first) * block_lanes;
    const int64_t lanes = std::min(panel_lanes, plan.group_dy - first * block_lanes);
    float* out = dw.tensor.f32() + (group * plan.group_dy + first * block_lanes) * m_count;
    if (kernels_.real)
      write_panel<float, double>(reinterpret_cast<const float*>(at), slots, slot_sums, m_count, panel_lanes, lanes,
                                 scale, dw.add, out);
    else
      write_panel<int32_t, int64_t>(at, slots, slot_sums, m_count, panel_lanes, lanes, scale, dw.add, out);
  };

#pragma omp parallel num_threads(threads_)
  {
    Workspace& workspace = workspaces_[static_cast<size_t>(omp_get_thread_num())];
    char* planes = workspace.x.get(0);
    char* words = workspace.dy.get(0);
    char* spread = workspace.spread.get(0);
    if (plan.spread()) memset(spread, 0, static_cast<size_t>(spread_bytes));
    memset(planes, packing.zero, static_cast<size_t>(plane_bytes));
    alignas(64) int32_t start[2 * block_lanes];
#pragma omp for schedule(static)
    for (int64_t share = 0; share < slots * parts; ++share) {
      const int64_t slot = share / parts, part = share % parts;
      const int64_t first_panel = panels * part / parts, end_panel = panels * (part + 1) / parts;
      int32_t* slot_at = sums + slot * slot_sums;
      for (int64_t item = plan.items * slot / slots; item < plan.items * (slot + 1) / slots; ++item) {
        pack_planes(plan, x.values, item, planes);
        const int64_t segments = plan.segments_of(item), pixels = plan.pixels_of(item);
        const int64_t filled = ceil_div(pixels, kernels_.group);
        const int segment_words = static_cast<int>(ceil_div(filled, kernels_.word_multiple) * kernels_.word_multiple);
        const char* dy_item = static_cast<const char*>(dy.values.data) +
                              item * plan.images * plan.dy.h * plan.dy.w * plan.dy.c * kernels_.source_bytes();
        if (plan.spread()) {
          spread_rows(plan, dy_item, item, spread);
          dy_item = spread;
        }
        const auto next = [&](const Tensor& tensor) {
          const int64_t bytes = tensor.elements() * kernels_.source_bytes() / plan.items;
          return item + 1 < plan.items ? Ahead{static_cast<const char*>(tensor.data) + (item + 1) * bytes, bytes}
                                       : Ahead{};
        };
        Ahead next_x = next(x.values), next_dy = next(dy.values);
        const int64_t stride = std::max(next_x.bytes, next_dy.bytes) / (end_panel - first_panel) + 64;
        for (int64_t panel = first_panel; panel < end_panel; ++panel) {
          const int group = static_cast<int>(panel / group_panels),
                    first = static_cast<int>(panel % group_panels) * step;
          const int count = std::min(step, blocks - first);
          for (int block = 0; block < count; ++block) {
            const int64_t lane = (first + block) * block_lanes;
            const int lanes = static_cast<int>(std::min<int64_t>(block_lanes, plan.group_dy - lane));
            for (int64_t segment = 0; segment < segments; ++segment) {
              char* to = words + (segment * segment_words * count + block) * 64;
              kernels_.interleave(
                  dy_item + (segment * pixels * plan.dy.c + group * plan.group_dy + lane) * kernels_.source_bytes(),
                  plan.dy.c, pixels, lanes, to, count * block_lanes);
              for (int64_t k = filled; k < segment_words; ++k) memset(to + k * count * 64, 0, 64);
            }
          }
          packing.start(words, segments * segment_words, count, start);
          int32_t* const at =
              at_once ? sums + part * panel_sums : slot_at + (group * blocks + first) * m_count * block_lanes;
          Panel work{planes + group * plan.group_x * plan.plane_elements * kernels_.packed_bytes(),
                     plan.base.data(),
                     m_count,
                     plan.segment.data(),
                     segments,
                     segment_words,
                     words,
                     count,
                     start};
          work.pair_step = plan.pair_step;
          work.first = item == plan.items * slot / slots;
          work.ahead[0] = next_x.take(stride);
          work.ahead[1] = next_dy.take(stride);
          kernels_.accumulate(work, at);
          if (at_once) write(panel, at);
        }
      }
    }
    if (!at_once) {
#pragma omp for schedule(static)
      for (int64_t panel = 0; panel < panels; ++panel)
        write(panel, sums + (panel / group_panels * blocks + panel % group_panels * step) * m_count * block_lanes);
    }
  }
}

}  // namespace octet::cpu
