// The weight gradient of TableConvolution.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/conv_table.h"
#include "kernels/shared/sums.h"

namespace octet::cpu {
namespace {
constexpr int64_t cached_gradient = 256 * 1024;  // bytes: the update finds such a dw in a cache
}

void TableConvolution::pack_planes(const ContractionKernels& kernels, const WeightGradientPlan& plan, Tensor x,
                                   int64_t item, char* packed, int64_t channel, int64_t channels) const {
  const auto transpose = kernels.packing_of(x.dtype).transpose;
  const int64_t images = plan.images_of(item), unit = kernels.packed_bytes(), source = kernels.source_bytes();
  const char* const from =
      x.as<const char>() + (item * plan.images * plan.x.h * plan.x.w * plan.x.c + channel) * source;
  packed += channel * plan.plane_elements * unit;
  if (!plan.has_halo())
    return transpose(from, plan.x.c, images * plan.rows * plan.columns, channels, packed, plan.plane_elements);
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
                    plan.stride_w * plan.x.c, end - first, channels,
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
// least one per thread while they are small), or one per item (real values, whose order must not depend on threads).
// Where there are as many slots as threads, a thread packs an item and adds its products, slot by slot. Large gradients
// are shared out: a few threads each pack all items and take a part of the panels; many pack some items together, and
// then take panels and weights of their own.
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
        items_per_sum_(kernels_.real ? 1 : products_per_sum(x_.dtype) / plan.pixels_per_item()) {
    const int64_t needed = ceil_div(plan.items, items_per_sum_);
    const bool small = !kernels_.real && slot_sums_ <= small_gradient;
    const int threads = owner.threads_.count;
    const int64_t slots = small ? std::max(needed, std::min<int64_t>(threads, plan.items)) : needed;
    const bool shares = slots < threads, few = threads <= 4 && panels_ >= 2 * threads;
    slots_ = shares ? needed : slots;
    parts_ = shares && few ? threads : 1;
    together_ = shares && !few;
    plane_bytes_ = round_up(plan.x.c * plan.plane_elements * kernels_.packed_bytes() + 64 + 4 * kernels_.word_multiple);
    words_bytes_ = plan.segments_of(0) * plan.words * step_ * 64 + start_bytes;
    spread_bytes_ = plan.spread() ? plan.pixels_of(0) * plan.y.c * kernels_.source_bytes() : 0;
    const int64_t item_bytes = plane_bytes_ + panels_ * words_bytes_;
    if (together_) cut_rounds(std::clamp<int64_t>(packed_together / item_bytes, 1, plan.items));
    at_once_ = slots_ == 1 && round_ == plan.items;
    if (!at_once_) sums_ = owner.sums_.get<int32_t>(static_cast<size_t>(slots_ * slot_sums_));
    if (together_) packed_ = owner.packed_.get(static_cast<size_t>(round_ * item_bytes));
    for (Workspace& workspace : owner.workspaces_) {
      workspace.x.get(static_cast<size_t>(together_ ? 0 : plane_bytes_));
      workspace.dy.get(static_cast<size_t>(together_ ? 0 : words_bytes_));
      workspace.spread.get(static_cast<size_t>(spread_bytes_));
      workspace.sums.get<int32_t>(
          static_cast<size_t>(at_once_ ? (together_ ? chunk_m : m_count_) * step_ * block_lanes : 0));
    }
  }

  void run() {
    run_team(owner_.threads_, [&](const Team& team) {
      Workspace& workspace = owner_.workspace_of(team);
      if (plan_.spread()) memset(workspace.spread.get(0), 0, static_cast<size_t>(spread_bytes_));
      together_ ? run_together(team, workspace) : run_by_slots(team, workspace);
      if (!at_once_ && !(together_ && slots_ == 1))
        team.share(panels_ * chunks(), [&](int64_t share) {
          write(share / chunks(), share % chunks(), chunk_at(0, share / chunks(), share % chunks()));
        });
    });
  }

 private:
  // Bytes that threads pack before they share the sums out: some of the last-level cache. A panel's words begin with
  // the values at which its sums start.
  static constexpr int64_t packed_together = 4 << 20, start_bytes = 2 * block_lanes * sizeof(int32_t);
  static constexpr int64_t chunk_m = 128, chunk_channels = 64;  // of the sums, and of planes, that are one work item
  static int64_t round_up(int64_t bytes) { return ceil_div(bytes, 64) * 64; }

  // The rounds, each of at most so many items, and the groups of a round's items whose sums are apart: so many that
  // every thread gets its share of groups, panels and weights.
  void cut_rounds(int64_t most) {
    const int64_t threads = owner_.threads_.count, shares = std::max(6 * std::min<int64_t>(threads, 16), 3 * threads);
    rounds_ = ceil_div(plan_.items, std::min(most, kernels_.real ? most : items_per_sum_));
    round_ = ceil_div(plan_.items, rounds_);
    groups_ = std::clamp<int64_t>(ceil_div(shares, panels_ * chunks()), 1, plan_.items / rounds_);
    rounds_per_sum_ = std::max<int64_t>(1, items_per_sum_ / ceil_div(round_, groups_));
    slots_ = kernels_.real ? plan_.items : groups_ * ceil_div(rounds_, rounds_per_sum_);
  }

  int64_t chunks() const { return ceil_div(m_count_, chunk_m); }
  int64_t first_item(int64_t slot) const { return plan_.items * slot / slots_; }
  int group_of(int64_t panel) const { return static_cast<int>(panel / group_panels_); }
  int first_block(int64_t panel) const { return static_cast<int>(panel % group_panels_) * step_; }  // of its group
  int blocks_in(int64_t panel) const { return std::min(step_, blocks_ - first_block(panel)); }
  int32_t* panel_at(int64_t slot, int64_t panel) const {
    return sums_ + slot * slot_sums_ +
           (int64_t{group_of(panel)} * blocks_ + first_block(panel)) * m_count_ * block_lanes;
  }
  int32_t* chunk_at(int64_t slot, int64_t panel, int64_t chunk) const {
    return panel_at(slot, panel) + chunk * chunk_m * blocks_in(panel) * block_lanes;
  }
  const char* gradient_of(int64_t item) const {
    return dy_.as<const char>() + item * plan_.pixels_per_item() * plan_.y.c * kernels_.source_bytes();
  }
  const char* spread(int64_t item, Workspace& workspace) const {
    if (!plan_.spread()) return gradient_of(item);
    owner_.spread_rows(plan_, gradient_of(item), item, workspace.spread.get(0));
    return workspace.spread.get(0);
  }

  void run_by_slots(const Team& team, Workspace& workspace) const {
    char* const planes = workspace.x.get(0);
    if (plan_.has_halo()) memset(planes, packing_.zero, static_cast<size_t>(plane_bytes_));
    team.share(slots_ * parts_, [&](int64_t share) {
      const int64_t slot = share / parts_, end = std::min(first_item(slot + 1), plan_.items);
      for (int64_t item = first_item(slot); item < end; ++item) add_item(item, slot, share % parts_, workspace);
    });
  }
  // Adds an item's products to one part of the panels of a slot.
  void add_item(int64_t item, int64_t slot, int64_t part, Workspace& workspace) const {
    const int64_t first_panel = panels_ * part / parts_, end_panel = panels_ * (part + 1) / parts_;
    char *const planes = workspace.x.get(0), *const words = workspace.dy.get(0);
    owner_.pack_planes(kernels_, plan_, x_, item, planes, 0, plan_.x.c);
    const char* const dy = spread(item, workspace);
    Ahead next_x = next_of(x_, item), next_dy = next_of(dy_, item);
    const int64_t share = std::max(next_x.bytes, next_dy.bytes) / (end_panel - first_panel) + 64;
    for (int64_t panel = first_panel; panel < end_panel; ++panel) {
      pack_words(panel, item, dy, words);
      Panel work = panel_of(panel, item, planes, words, 0, m_count_);
      work.first = item == first_item(slot);
      work.ahead[0] = next_x.take(share), work.ahead[1] = next_dy.take(share);
      int32_t* const sums = at_once_ ? workspace.sums.get<int32_t>(0) : panel_at(slot, panel);
      kernels_.accumulate(work, sums);
      for (int64_t chunk = 0; at_once_ && chunk < chunks(); ++chunk)
        write(panel, chunk, sums + chunk * chunk_m * blocks_in(panel) * block_lanes);
    }
  }

  char* planes_at(int64_t place) const { return packed_ + place * plane_bytes_; }
  char* words_at(int64_t place, int64_t panel) const {
    return packed_ + round_ * plane_bytes_ + (place * panels_ + panel) * words_bytes_;
  }
  void run_together(const Team& team, Workspace& workspace) const {
    const int64_t plane_chunks = ceil_div(plan_.x.c, chunk_channels), word_parts = plan_.spread() ? 1 : panels_;
    if (plan_.has_halo())
      team.share(round_,
                 [&](int64_t place) { memset(planes_at(place), packing_.zero, static_cast<size_t>(plane_bytes_)); });
    for (int64_t round = 0; round < rounds_; ++round) {
      const int64_t begin = plan_.items * round / rounds_, items = plan_.items * (round + 1) / rounds_ - begin;
      const auto pack_x = [&](int64_t i) {
        const int64_t place = i / plane_chunks, channel = i % plane_chunks * chunk_channels;
        owner_.pack_planes(kernels_, plan_, x_, begin + place, planes_at(place), channel,
                           std::min(chunk_channels, plan_.x.c - channel));
      };
      team.deal(items * plane_chunks, 1, pack_x, false);
      team.deal(items * word_parts, 1, [&](int64_t i) {
        const int64_t place = i / word_parts, part = i % word_parts;
        const char* const dy = spread(begin + place, workspace);
        for (int64_t panel = panels_ * part / word_parts; panel < panels_ * (part + 1) / word_parts; ++panel)
          pack_words(panel, begin + place, dy, words_at(place, panel));
      });
      team.deal(groups_ * panels_ * chunks(), 1, [&](int64_t share) {
        const int64_t group = share / chunks() / panels_, panel = share / chunks() % panels_, chunk = share % chunks();
        const int64_t first = ceil_div(group * items, groups_), end = ceil_div((group + 1) * items, groups_);
        const int64_t slot = round / rounds_per_sum_ * groups_ + group;
        int32_t* sums = at_once_ ? workspace.sums.get<int32_t>(0) : chunk_at(slot, panel, chunk);
        for (int64_t place = first; place < end; ++place) {
          if (kernels_.real && !at_once_) sums = chunk_at(begin + place, panel, chunk);
          const bool begins = kernels_.real || (place == first && round % rounds_per_sum_ == 0);
          add_chunk(begin + place, place, panel, chunk, begins, sums);
        }
        if (slots_ == 1 && round + 1 == rounds_) write(panel, chunk, sums);
      });
    }
  }
  // begins: the sums are the item's alone.
  void add_chunk(int64_t item, int64_t place, int64_t panel, int64_t chunk, bool begins, int32_t* sums) const {
    const int64_t first = chunk * chunk_m;
    Panel work =
        panel_of(panel, item, planes_at(place), words_at(place, panel), first, std::min(chunk_m, m_count_ - first));
    work.first = begins;
    if (place + 1 < round_) work.ahead[0] = {words_at(place + 1, panel), words_bytes_};
    kernels_.accumulate(work, sums);
  }

  // What the next item reads of a tensor.
  Ahead next_of(const Tensor& tensor, int64_t item) const {
    const int64_t bytes = tensor.elements() * kernels_.source_bytes() / plan_.items;
    return item + 1 < plan_.items ? Ahead{tensor.as<const char>() + (item + 1) * bytes, bytes} : Ahead{};
  }

  int segment_words(int64_t item) const {
    const int64_t filled = ceil_div(plan_.pixels_of(item), kernels_.group);
    return static_cast<int>(ceil_div(filled, kernels_.word_multiple) * kernels_.word_multiple);
  }
  // Brings the panel's part of dy into words, behind the values at which sums start.
  void pack_words(int64_t panel, int64_t item, const char* dy, char* to) const {
    const int group = group_of(panel), first = first_block(panel), count = blocks_in(panel);
    const int64_t segments = plan_.segments_of(item), pixels = plan_.pixels_of(item);
    const int64_t joined = kernels_.joined_words, whole = segment_words(item);
    const int64_t filled = ceil_div(pixels, kernels_.group * joined) * joined;
    char* const words = to + start_bytes;
    for (int block = 0; block < count; ++block) {
      const int64_t lane = (first + block) * block_lanes;
      const int lanes = static_cast<int>(std::min<int64_t>(block_lanes, plan_.group_dy - lane));
      for (int64_t segment = 0; segment < segments; ++segment) {
        char* const at = words + (segment * whole * count + block) * 64;
        kernels_.interleave(
            dy + (segment * pixels * plan_.y.c + group * plan_.group_dy + lane) * kernels_.source_bytes(), plan_.y.c,
            pixels, lanes, at, count * block_lanes);
        for (int64_t k = filled; k < whole; ++k) memset(at + k * count * 64, 0, 64);
      }
    }
    packing_.start(words, segments * whole, count, reinterpret_cast<int32_t*>(to));
  }
  // All that the contraction of some weights reads.
  Panel panel_of(int64_t panel, int64_t item, const char* planes, const char* words, int64_t first,
                 int64_t count) const {
    Panel work{planes + group_of(panel) * plan_.group_x * plan_.plane_elements * kernels_.packed_bytes(),
               plan_.base.data() + first,
               count,
               plan_.segment.data(),
               plan_.segments_of(item),
               segment_words(item),
               words + start_bytes,
               blocks_in(panel),
               reinterpret_cast<const int32_t*>(words)};
    work.pair_step = plan_.pair_step;
    return work;
  }

  // dw (+)= a chunk of the panel's sums, those of all slots behind one another.
  void write(int64_t panel, int64_t chunk, const int32_t* sums) const {
    const int64_t first_lane = first_block(panel) * block_lanes, panel_lanes = int64_t{blocks_in(panel)} * block_lanes;
    const int64_t first = chunk * chunk_m, row = group_of(panel) * plan_.group_dy + first_lane;
    const PanelSums of{.at = sums,
                       .slots = slots_,
                       .slot_step = slot_sums_,
                       .count = std::min(chunk_m, m_count_ - first),
                       .row = m_count_,
                       .panel_lanes = panel_lanes,
                       .lanes = std::min(panel_lanes, plan_.group_dy - first_lane),
                       .scale = scale_};
    const bool past_caches = static_cast<int64_t>(dw_.tensor.bytes()) > cached_gradient;
    kernels_.write_sums(of, dw_.add, past_caches, dw_.tensor.f32() + row * m_count_ + first);
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
  const int64_t slot_sums_, items_per_sum_;
  bool together_, at_once_;  // at_once_: a chunk's sums are complete when it ends
  int64_t slots_, parts_, plane_bytes_, words_bytes_, spread_bytes_;  // of an item, and of one panel
  int64_t rounds_ = 1, round_ = 1;           // in which items are packed together, and the most items of one
  int64_t groups_ = 1, rounds_per_sum_ = 1;  // see cut_rounds(); rounds whose sums an int32 can hold
  int32_t* sums_ = nullptr;
  char* packed_ = nullptr;
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
