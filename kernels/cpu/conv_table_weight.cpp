// The weight gradient of TableConvolution.
#include <omp.h>

#include <algorithm>
#include <cstring>

#include "kernels/cpu/conv_table.h"
#include "kernels/shared/sums.h"

namespace octet::cpu {
namespace {
constexpr int64_t cached_gradient = 256 * 1024;  // bytes: the update finds such a dw in a cache
}

void TableConvolution::pack_planes(const ContractionKernels& kernels, const WeightGradientPlan& plan, Tensor x,
                                   int64_t item, char* packed) const {
  const auto transpose = kernels.packing_of(x.dtype).transpose;
  const int64_t images = plan.images_of(item), unit = kernels.packed_bytes(), source = kernels.source_bytes();
  const char* from = x.as<const char>() + item * plan.images * plan.x.h * plan.x.w * plan.x.c * source;
  const bool as_it_is = plan.stride_h == 1 && plan.stride_w == 1 && plan.pad_h == 0 && plan.pad_w == 0 &&
                        plan.rows == plan.x.h && plan.columns == plan.x.w;
  if (as_it_is)
    return transpose(from, plan.x.c, images * plan.rows * plan.columns, plan.x.c, packed, plan.plane_elements);
  for (int64_t phase_h = 0; phase_h < plan.phases_h; ++phase_h)
    for (int64_t phase_w = 0; phase_w < plan.phases_w; ++phase_w) {
      const int64_t phase = phase_h * plan.phases_w + phase_w, shift = phase_w * plan.phase_step - plan.pad_w;
      const int64_t first = shift >= 0 ? 0 : ceil_div(-shift, plan.stride_w);
      const int64_t end = std::min(plan.columns, ceil_div(plan.x.w - shift, plan.stride_w));
      const int64_t column = shift + first * plan.stride_w;
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

// Copies the rows of dy so that they are as far apart as the rows of the planes.
void TableConvolution::spread_rows(const WeightGradientPlan& plan, const char* dy, int64_t item, char* spread) const {
  const int64_t pixel = plan.y.c * kernels_.source_bytes(), row_bytes = plan.y.w * pixel;
  for (int64_t image = 0; image < plan.images_of(item); ++image)
    for (int64_t row = 0; row < plan.y.h; ++row, dy += row_bytes)
      memcpy(spread + (image * plan.rows + row) * plan.columns * pixel, dy, static_cast<size_t>(row_bytes));
}

// The weight gradient of a batch. Sums live in slots: one per range of work items that an int32 can hold (codes; at
// least one per thread while they are small), or one per item (real values, whose order must not depend on threads). A
// thread's share of the work is (slot, part of the panels); large gradients are split over panels rather than copied.
class TableConvolution::WeightJob {
 public:
  WeightJob(TableConvolution& owner, const WeightGradientPlan& plan, const ConvBackwardWeightCall& call)
      : owner_(owner),
        kernels_(owner.kernels_),
        packing_(kernels_.packing_of(call.x.values.dtype)),
        plan_(plan),
        x_(call.x.values),
        dy_(call.dy.values),
        dw_(call.dw),
        scale_(kernels_.real ? 1.0f : *call.x.scale * *call.dy.scale),
        blocks_(owner.blocks_of(plan.group_dy)),
        step_(kernels_.max_blocks),
        group_panels_((blocks_ + step_ - 1) / step_),
        panels_(static_cast<int64_t>(plan.groups) * group_panels_),
        m_count_(call.dw.tensor.elements() / call.problem.y.c),
        slot_sums_(plan.groups * blocks_ * m_count_ * block_lanes),
        panel_sums_(step_ * block_lanes * m_count_),
        at_once_(plan.items == 1) {
    const int64_t items_per_sum = kernels_.real ? 1 : products_per_sum(x_.dtype) / plan.pixels_per_item();
    slots_ = ceil_div(plan.items, items_per_sum);
    if (slots_ < owner.threads_) {
      if (!kernels_.real && slot_sums_ <= small_gradient && plan.items > 1)
        slots_ = std::min<int64_t>(owner.threads_, plan.items);
      else
        parts_ = std::min<int64_t>(owner.threads_, panels_);
    }
    sums_ = owner.sums_.get<int32_t>(static_cast<size_t>(at_once_ ? parts_ * panel_sums_ : slots_ * slot_sums_));
    plane_bytes_ = plan.x.c * plan.plane_elements * kernels_.packed_bytes() + 64 + 4 * kernels_.word_multiple;
    spread_bytes_ = plan.spread() ? plan.pixels_of(0) * plan.y.c * kernels_.source_bytes() : 0;
    const int64_t dy_words = plan.segments_of(0) * plan.words * kernels_.max_blocks;
    for (Workspace& workspace : owner.workspaces_) {
      workspace.x.get(static_cast<size_t>(plane_bytes_));
      workspace.dy.get(static_cast<size_t>(dy_words * 64));
      workspace.spread.get(static_cast<size_t>(spread_bytes_));
    }
  }

  void run() {
#pragma omp parallel num_threads(owner_.threads_)
    {
      Workspace& workspace = owner_.workspaces_[static_cast<size_t>(omp_get_thread_num())];
      if (plan_.spread()) memset(workspace.spread.get(0), 0, static_cast<size_t>(spread_bytes_));
      memset(workspace.x.get(0), packing_.zero, static_cast<size_t>(plane_bytes_));
#pragma omp for schedule(static)
      for (int64_t share = 0; share < slots_ * parts_; ++share) {
        const int64_t slot = share / parts_, first = first_item(slot), end = first_item(slot + 1);
        for (int64_t item = first; item < end; ++item) add_item(item, item == first, slot, share % parts_, workspace);
      }
      if (!at_once_) {
#pragma omp for schedule(static)
        for (int64_t panel = 0; panel < panels_; ++panel) write(panel, panel_at(0, panel));
      }
    }
  }

 private:
  int64_t first_item(int64_t slot) const { return plan_.items * slot / slots_; }
  int group_of(int64_t panel) const { return static_cast<int>(panel / group_panels_); }
  int first_block(int64_t panel) const { return static_cast<int>(panel % group_panels_) * step_; }  // of its group
  int blocks_in(int64_t panel) const { return std::min(step_, blocks_ - first_block(panel)); }
  int32_t* panel_at(int64_t slot, int64_t panel) const {
    return sums_ + slot * slot_sums_ +
           (int64_t{group_of(panel)} * blocks_ + first_block(panel)) * m_count_ * block_lanes;
  }

  // Adds an item's products to one part of the panels of a slot. Sums of a single item are written as soon as a panel
  // has them: each part needs room for one panel.
  void add_item(int64_t item, bool first, int64_t slot, int64_t part, Workspace& workspace) const {
    const int64_t first_panel = panels_ * part / parts_, end_panel = panels_ * (part + 1) / parts_;
    char *const planes = workspace.x.get(0), *const words = workspace.dy.get(0);
    owner_.pack_planes(kernels_, plan_, x_, item, planes);
    const char* dy =
        dy_.as<const char>() + item * plan_.images * plan_.y.h * plan_.y.w * plan_.y.c * kernels_.source_bytes();
    if (plan_.spread()) {
      owner_.spread_rows(plan_, dy, item, workspace.spread.get(0));
      dy = workspace.spread.get(0);
    }
    alignas(64) int32_t start[2 * block_lanes];
    Ahead next_x = next_of(x_, item), next_dy = next_of(dy_, item);
    const int64_t share = std::max(next_x.bytes, next_dy.bytes) / (end_panel - first_panel) + 64;
    for (int64_t panel = first_panel; panel < end_panel; ++panel) {
      Panel work = pack_panel(panel, item, planes, dy, words, start);
      work.first = first;
      work.ahead[0] = next_x.take(share);
      work.ahead[1] = next_dy.take(share);
      int32_t* const sums = at_once_ ? sums_ + part * panel_sums_ : panel_at(slot, panel);
      kernels_.accumulate(work, sums);
      if (at_once_) write(panel, sums);
    }
  }

  // What the next item reads of a tensor.
  Ahead next_of(const Tensor& tensor, int64_t item) const {
    const int64_t bytes = tensor.elements() * kernels_.source_bytes() / plan_.items;
    return item + 1 < plan_.items ? Ahead{tensor.as<const char>() + (item + 1) * bytes, bytes} : Ahead{};
  }

  // Brings the panel's part of dy into words, and points to all that its contraction reads.
  Panel pack_panel(int64_t panel, int64_t item, const char* planes, const char* dy, char* words, int32_t* start) const {
    const int group = group_of(panel), first = first_block(panel), count = blocks_in(panel);
    const int64_t segments = plan_.segments_of(item), pixels = plan_.pixels_of(item);
    const int64_t filled = ceil_div(pixels, kernels_.group);
    const int segment_words = static_cast<int>(ceil_div(filled, kernels_.word_multiple) * kernels_.word_multiple);
    for (int block = 0; block < count; ++block) {
      const int64_t lane = (first + block) * block_lanes;
      const int lanes = static_cast<int>(std::min<int64_t>(block_lanes, plan_.group_dy - lane));
      for (int64_t segment = 0; segment < segments; ++segment) {
        char* to = words + (segment * segment_words * count + block) * 64;
        kernels_.interleave(
            dy + (segment * pixels * plan_.y.c + group * plan_.group_dy + lane) * kernels_.source_bytes(), plan_.y.c,
            pixels, lanes, to, count * block_lanes);
        for (int64_t k = filled; k < segment_words; ++k) memset(to + k * count * 64, 0, 64);
      }
    }
    packing_.start(words, segments * segment_words, count, start);
    Panel work{planes + group * plan_.group_x * plan_.plane_elements * kernels_.packed_bytes(),
               plan_.base.data(),
               m_count_,
               plan_.segment.data(),
               segments,
               segment_words,
               words,
               count,
               start};
    work.pair_step = plan_.pair_step;
    return work;
  }

  // dw (+)= the panel's sums of all slots, at `sums` and slot_sums_ behind one another.
  void write(int64_t panel, const int32_t* sums) const {
    const int64_t first = first_block(panel), panel_lanes = int64_t{blocks_in(panel)} * block_lanes;
    const int64_t lanes = std::min(panel_lanes, plan_.group_dy - first * block_lanes);
    float* out = dw_.tensor.f32() + (group_of(panel) * plan_.group_dy + first * block_lanes) * m_count_;
    const bool past_caches = static_cast<int64_t>(dw_.tensor.bytes()) > cached_gradient;
    kernels_.write_sums({sums, slots_, slot_sums_, m_count_, panel_lanes, lanes, scale_}, dw_.add, past_caches, out);
  }

  TableConvolution& owner_;
  const ContractionKernels& kernels_;
  const Packing& packing_;
  const WeightGradientPlan& plan_;
  const Tensor x_, dy_;
  const Into dw_;
  const float scale_;
  const int blocks_, step_, group_panels_;  // blocks of a group, blocks of a panel, panels of a group
  const int64_t panels_, m_count_;          // of all groups; weights of one output channel
  const int64_t slot_sums_, panel_sums_;
  const bool at_once_;
  int64_t slots_, parts_ = 1, plane_bytes_, spread_bytes_;
  int32_t* sums_;
};

void TableConvolution::backward_weight(const ConvBackwardWeightCall& call) {
  const ConvProblem& p = call.problem;
  check_weight_gradient(p, call.x.values.dtype);
  if (depthwise_ != nullptr && is_depthwise(p)) return backward_weight_depthwise(call);
  const Key key = key_of(p);
  auto found = weight_plans_.find(key);
  if (found == weight_plans_.end()) found = weight_plans_.emplace(key, plan_backward_weight(p, kernels_)).first;
  WeightJob(*this, found->second, call).run();
}

}  // namespace octet::cpu
