// Forward and data gradient of TableConvolution: to (+)= a gather of `from` with the weights (conv_plan.h).
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/cpu/conv_table.h"
#include "kernels/shared/exact_moments.h"

namespace octet::cpu {
namespace {

constexpr int64_t cached_weights = 24 * 1024, cached_pixels = 2 * moment_pixels;
constexpr int64_t shares_per_thread = 4;   // at least, so that threads end together
constexpr int64_t combined_channels = 64;  // whose moments a thread combines at once

// The moments of one work item, in memory of bytes_per_channel for each channel.
constexpr int64_t bytes_per_channel = 32;
RealSums real_sums(char* memory, int64_t item, int64_t channels) {
  auto* const sum = reinterpret_cast<double*>(memory + item * channels * bytes_per_channel);
  auto* const min = reinterpret_cast<float*>(sum + 2 * channels);
  return {sum, sum + channels, min, min + channels};
}
ExactSums exact_sums(char* memory, int64_t item, int64_t channels, bool extremes) {
  auto* const sum = reinterpret_cast<int64_t*>(memory + item * channels * bytes_per_channel);
  auto* const low = reinterpret_cast<uint64_t*>(sum + channels);
  auto* const min = reinterpret_cast<int32_t*>(low + 2 * channels);
  return {sum, low, low + channels, 0, extremes ? min : nullptr, extremes ? min + channels : nullptr};
}
// Of some channels.
void clear(const RealSums& of, int64_t channel, int64_t channels) {
  std::fill_n(of.sum + channel, channels, 0.0), std::fill_n(of.square + channel, channels, 0.0);
  std::fill_n(of.min + channel, channels, std::numeric_limits<float>::infinity());
  std::fill_n(of.max + channel, channels, -std::numeric_limits<float>::infinity());
}
void clear(const ExactSums& of, int64_t channel, int64_t channels) {
  std::fill_n(of.sum + channel, channels, 0);
  std::fill_n(of.low + channel, channels, uint64_t{0}), std::fill_n(of.high + channel, channels, uint64_t{0});
  if (of.min == nullptr) return;
  std::fill_n(of.min + channel, channels, std::numeric_limits<int32_t>::max());
  std::fill_n(of.max + channel, channels, -std::numeric_limits<int32_t>::max());
}

struct Channels {
  int64_t first, end;
};
// The moments of all items of real values, added in their order.
void combine_real(char* memory, const GatherPlan& plan, Channels of, Moments moments) {
  const int64_t channels = plan.to.c;
  const double count = static_cast<double>(plan.to.pixels());
  const RealSums total = real_sums(memory, 0, channels);
  for (int64_t item = 1; item < plan.items; ++item) {
    const RealSums part = real_sums(memory, item, channels);
    for (int64_t c = of.first; c < of.end; ++c) {
      total.sum[c] += part.sum[c];
      total.square[c] += part.square[c];
      total.min[c] = std::min(total.min[c], part.min[c]);
      total.max[c] = std::max(total.max[c], part.max[c]);
    }
  }
  for (int64_t c = of.first; c < of.end; ++c) {
    const double mean = total.sum[c] / count;
    moments.mean[c] = static_cast<float>(mean);
    moments.variance[c] = static_cast<float>(std::max(0.0, total.square[c] / count - mean * mean));
    if (moments.min != nullptr) moments.min[c] = total.min[c];
    if (moments.max != nullptr) moments.max[c] = total.max[c];
  }
}
bool wants_extremes(const Moments& moments) { return moments.min != nullptr || moments.max != nullptr; }
// Those of codes, whose sums are multiplied by scale_of(channel).
template <class ScaleOf>
void combine_exact(char* memory, const GatherPlan& plan, Channels of, ScaleOf scale_of, Moments moments) {
  const int64_t channels = plan.to.c;
  const bool extremes = wants_extremes(moments);
  const ExactSums total = exact_sums(memory, 0, channels, extremes);
  for (int64_t item = 1; item < plan.items; ++item) {
    const ExactSums part = exact_sums(memory, item, channels, extremes);
    for (int64_t c = of.first; c < of.end; ++c) {
      total.sum[c] += part.sum[c];
      total.low[c] += part.low[c], total.high[c] += part.high[c];
    }
    for (int64_t c = of.first; c < of.end && extremes; ++c) {
      total.min[c] = std::min(total.min[c], part.min[c]);
      total.max[c] = std::max(total.max[c], part.max[c]);
    }
  }
  for (int64_t c = of.first; c < of.end; ++c) {
    const float scale = scale_of(c);
    exact_moments(plan.to.pixels(), total.sum[c], {total.low[c], total.high[c]}, scale, &moments.mean[c],
                  &moments.variance[c]);
    if (moments.min != nullptr) moments.min[c] = static_cast<float>(total.min[c]) * scale;
    if (moments.max != nullptr) moments.max[c] = static_cast<float>(total.max[c]) * scale;
  }
}

}  // namespace

// If a sum is below 2^b, its square is below 2^2b, and 2^(31 - b) squares are below 2^(31 + b) <= 2^62.
int64_t moment_chunk(int64_t largest) {
  return std::clamp<int64_t>(std::numeric_limits<int32_t>::max() / std::max<int64_t>(largest, 1), 1, moment_pixels);
}

TableConvolution::Weights TableConvolution::weights_of(const QTensor& from, const QTensor& w) {
  if (from.real()) return {w.values.data};
  const int64_t products = w.values.elements() / w.values.shape.n;
  return {.values = w.values.data,
          .scale = *from.scale * *w.scale,
          .chunk = moment_chunk(products * (from.values.dtype == DType::u8 ? 255 : 127) * 127)};
}

// One gather of a batch, whose groups have moments of their own. The weights are packed once for all panels; then a
// thread takes work items of a few images each, packs their pixels and contracts them with every panel, or with a part
// of the panels where items are few. The plan is that of one group, so that no item has images of two groups.
class TableConvolution::GatherJob {
 public:
  GatherJob(TableConvolution& owner, const ContractionKernels& kernels, const GatherPlan& plan, Tensor from,
            const Weights& weights, Into to, std::span<const Moments> moments)
      : owner_(owner),
        kernels_(kernels),
        packing_(kernels.packing_of(from.dtype)),
        plan_(plan),
        from_(from),
        weights_(weights),
        to_(to),
        blocks_(owner.blocks_of(plan.group_to)),
        step_(kernels.max_blocks),
        panels_((blocks_ + step_ - 1) / step_),
        phases_(writes_even() ? 1 : static_cast<int64_t>(plan.phases.size())),
        visits_(phases_ * plan.groups * panels_),
        items_(plan.items * (to.tensor.elements() / plan.to.elements())),
        item_pixels_(plan.images * plan.to.h * plan.to.w),
        pixel_bytes_(plan.to.c * static_cast<int64_t>(size_of(to.tensor.dtype))),
        moments_of_(moments),
        extremes_(std::ranges::any_of(moments, wants_extremes)) {
    first_word_.push_back(0);
    for (const auto& phase : plan.phases)
      first_word_.push_back(first_word_.back() + (phase.parent < 0 ? plan.groups * blocks_ * phase.packed_words : 0));
    // While all weights fit into the first-level cache, few pixels at a time go through all panels: their outputs stay
    // there too.
    stretch_ = plan.groups * panels_ > 1 && first_word_.back() * kernels.block_bytes() <= cached_weights
                   ? cached_pixels
                   : int64_t{1} << 40;
    by_stretches_ = stretch_ == cached_pixels && visits_ == panels_;
    if (!by_stretches_ && plan.groups == 1)
      parts_ = std::clamp<int64_t>(ceil_div(shares_per_thread * owner.threads_.count, items_), 1, panels_);
    packed_weights_ = owner.weights_.get(static_cast<size_t>(first_word_.back() * kernels.block_bytes()));
    starts_ = owner.starts_.get<int32_t>(
        static_cast<size_t>(phases_ * plan.groups * blocks_ * kernels.digits.count * block_lanes));
    if (to.add && to.even) even_ = owner.even_.get<uint8_t>(static_cast<size_t>(to.tensor.shape.pixels()));
    if (!moments.empty()) moments_ = owner.moments_.get(static_cast<size_t>(items_ * plan.to.c * bytes_per_channel));
    for (Workspace& workspace : owner.workspaces_) workspace.x.get(static_cast<size_t>(plan.packed_bytes));
  }

  void run() {
    // Neighbours, since each item fetches the next one's memory; few enough that every thread gets its share.
    const int64_t together = std::clamp<int64_t>(items_ * parts_ / (12 * owner_.threads_.count), 1, 4);
    run_team(owner_.threads_, [&](const Team& team) {
      char* packed = owner_.workspace_of(team).x.get(0);
      if (plan_.has_halo()) memset(packed, packing_.zero, static_cast<size_t>(plan_.packed_bytes));
      if (even_ != nullptr) {
        const Shape shape = to_.tensor.shape;
        const auto mark = [&](int64_t row) {
          for (int64_t w = 0; w < shape.w; ++w) even_[row * shape.w + w] = row % shape.h % 2 == 0 && w % 2 == 0;
        };
        team.share(shape.n * shape.h, mark, false);
      }
      team.share(visits_, [&](int64_t at) {
        pack_panel(at / panels_ / plan_.groups, static_cast<int>(at / panels_ % plan_.groups),
                   static_cast<int>(at % panels_));
      });
      team.deal(items_ * parts_, together,
                [&](int64_t share) { contract_item(share / parts_, share % parts_, packed); });
      const int64_t chunks = ceil_div(plan_.to.c, combined_channels);
      team.share(static_cast<int64_t>(moments_of_.size()) * chunks, [&](int64_t share) {
        const int64_t first = share % chunks * combined_channels;
        combine(share / chunks, {first, std::min(first + combined_channels, plan_.to.c)});
      });
    });
  }

 private:
  void combine(int64_t group, Channels of) const {
    char* const memory = moments_ + group * plan_.items * plan_.to.c * bytes_per_channel;
    const Moments& moments = moments_of_[static_cast<size_t>(group)];
    const auto scale_of = [&](int64_t c) { return weights_.factor ? weights_.factor[c] : weights_.scale; };
    if (kernels_.real)
      combine_real(memory, plan_, of, moments);
    else
      combine_exact(memory, plan_, of, scale_of, moments);
  }
  // The phase of the even pixels is the first, and has the only tap.
  bool writes_even() const { return to_.even && !to_.add; }
  int64_t group_of(int64_t item) const { return item / plan_.items; }
  int64_t within_group(int64_t item) const { return item % plan_.items; }
  int64_t first_image(int64_t item) const { return group_of(item) * plan_.from.n + within_group(item) * plan_.images; }
  int64_t first_pixel(int64_t item) const { return first_image(item) * plan_.to.h * plan_.to.w; }
  int64_t images_of(int64_t item) const { return plan_.images_of(within_group(item)); }
  int blocks_in(int panel) const { return std::min(step_, blocks_ - panel * step_); }
  // Of a panel's weights, by phase f, group g and panel p of the group.
  char* panel_weights(int64_t f, int g, int p) const {
    const auto& phase = plan_.phases[static_cast<size_t>(f)];
    const size_t of = static_cast<size_t>(phase.parent < 0 ? f : phase.parent);
    const int64_t before = (g * blocks_ + p * step_) * plan_.phases[of].packed_words + phase.first_word * blocks_in(p);
    return packed_weights_ + (first_word_[of] + before) * kernels_.block_bytes();
  }
  int32_t* panel_start(int64_t f, int g, int p) const {
    return starts_ + ((f * plan_.groups + g) * blocks_ + p * step_) * kernels_.digits.count * block_lanes;
  }

  // The weights of a phase, and where the sums of those that use them start.
  void pack_panel(int64_t f, int g, int p) const {
    const auto& phase = plan_.phases[static_cast<size_t>(f)];
    if (phase.parent >= 0) return;
    const int count = blocks_in(p), digits = kernels_.digits.count;
    char* const panel = panel_weights(f, g, p);
    for (int block = 0; block < count; ++block) {
      const int64_t lane = (p * step_ + block) * block_lanes;
      kernels_.pack_weights(static_cast<const char*>(weights_.values) +
                                (g * plan_.weight_group + lane * plan_.lane_step) * kernels_.weight_bytes(),
                            plan_.lane_step, static_cast<int>(std::min<int64_t>(block_lanes, plan_.group_to - lane)),
                            phase.weight_offset.data(), phase.packed_words, panel + block * kernels_.block_bytes(),
                            count * digits * block_lanes);
    }
    for (int64_t of = f; of < phases_ && (of == f || plan_.phases[static_cast<size_t>(of)].parent == f); ++of)
      packing_.start(panel_weights(of, g, p), plan_.phases[static_cast<size_t>(of)].packed_words, count * digits,
                     panel_start(of, g, p));
  }

  // The plan's shape may be a list of pixels, so its images are not those of the tensor.
  Tensor source_group(int64_t group) const {
    const int64_t bytes = plan_.from.elements() * static_cast<int64_t>(size_of(from_.dtype));
    return {from_.as<std::byte>() + group * bytes, plan_.from, from_.dtype};
  }

  // What an item reads, and from pixel `first` of its output what it writes: fetched while the item before is computed.
  Ahead source_of(int64_t item) const {
    if (item >= items_) return {};
    const int64_t image = plan_.from.h * plan_.from.w * plan_.from.c * kernels_.source_bytes();
    return {from_.as<const char>() + first_image(item) * image, images_of(item) * image};
  }
  // Panels and phases write their part of the output in pieces, so all of it is fetched as it lies.
  Ahead output_of(int64_t item, int64_t first, int64_t pixels) const {
    if (visits_ == 1) return {};
    if (item >= items_) return {};
    const int64_t end = std::min(first + pixels, images_of(item) * plan_.to.h * plan_.to.w) + first_pixel(item);
    first += first_pixel(item);
    return {to_.tensor.as<const char>() + first * pixel_bytes_, std::max<int64_t>(0, end - first) * pixel_bytes_};
  }

  // Of the panels' channels. Of several groups, each of which has such panels, all channels are cleared.
  void clear_moments(int64_t item, int first_panel, int end_panel) const {
    const int64_t lanes = step_ * block_lanes, first = first_panel * lanes;
    const int64_t channel = parts_ == 1 ? 0 : first;
    const int64_t channels = parts_ == 1 ? plan_.to.c : std::min(end_panel * lanes, plan_.to.c) - first;
    if (kernels_.real)
      clear(real_sums(moments_, item, plan_.to.c), channel, channels);
    else
      clear(exact_sums(moments_, item, plan_.to.c, extremes_), channel, channels);
  }

  void contract_item(int64_t item, int64_t part, char* packed) const {
    const int first_panel = static_cast<int>(panels_ * part / parts_);
    const int end_panel = static_cast<int>(panels_ * (part + 1) / parts_);
    const bool last = part + 1 == parts_;  // before the next item
    const int64_t visits = ceil_div(visits_, parts_);
    Ahead input = last ? source_of(item + 1) : Ahead{};
    Ahead output = last && !by_stretches_ ? output_of(item + 1, 0, item_pixels_) : Ahead{};
    const int64_t input_share = input.bytes / visits + 64;
    owner_.pack_images(kernels_, plan_, source_group(group_of(item)), within_group(item), packed);
    if (moments_ != nullptr) clear_moments(item, first_panel, end_panel);
    for (int64_t f = 0; f < phases_; ++f) {
      const int64_t pixels = images_of(item) * plan_.phases[static_cast<size_t>(f)].pixels_per_image;
      for (int64_t begin = 0; begin < pixels; begin += stretch_)
        for (int g = 0; g < plan_.groups; ++g)
          for (int p = first_panel; p < end_panel; ++p) {
            const int64_t end = std::min(begin + stretch_, pixels);
            Panel panel = panel_of(f, g, p, packed, begin, end - begin);
            if (by_stretches_ && p == 0) output = output_of(item, end, end - begin);
            panel.ahead[0] = input.take(input_share);
            panel.ahead[1] = output.take((by_stretches_ ? end - begin : item_pixels_) * pixel_bytes_ / visits + 64);
            kernels_.contract(panel, destination_of(item, f, g, p, begin));
          }
    }
  }

  Panel panel_of(int64_t f, int g, int p, const char* packed, int64_t begin, int64_t count) const {
    const auto& phase = plan_.phases[static_cast<size_t>(f)];
    const int64_t channel = plan_.depthwise ? int64_t{p} * step_ * block_lanes : g * plan_.group_from;
    Panel panel{packed + channel * kernels_.packed_bytes(),
                phase.base.data() + begin,
                count,
                phase.segment.data(),
                static_cast<int64_t>(phase.segment.size()),
                phase.words,
                panel_weights(f, g, p),
                blocks_in(p),
                panel_start(f, g, p)};
    panel.pair_step = phase.pair_step;
    panel.row_step = phase.row_step;
    return panel;
  }

  Destination destination_of(int64_t item, int64_t f, int g, int p, int64_t begin) const {
    const int64_t first = int64_t{p} * step_ * block_lanes, lane = g * plan_.group_to + first;
    Destination to{};
    to.scale = weights_.scale;
    if (weights_.factor != nullptr) to.factor = weights_.factor + lane;
    to.y = to_.tensor.as<char>() + first_pixel(item) * pixel_bytes_ +
           lane * static_cast<int64_t>(size_of(to_.tensor.dtype));
    to.pixel = plan_.phases[static_cast<size_t>(f)].pixel.data() + begin;
    to.channels = plan_.to.c;
    to.lanes = static_cast<int>(std::min<int64_t>(blocks_in(p) * block_lanes, plan_.group_to - first));
    to.bf16 = to_.tensor.dtype == DType::bf16;
    to.add = to_.add;
    if (to_.add && (to_.mask || to_.even))
      to.part = {to_.mask.u8(), even_ != nullptr ? even_ + first_pixel(item) : nullptr,
                 first_pixel(item) * plan_.to.c + lane};
    if (moments_ == nullptr) return to;
    if (kernels_.real) {
      const RealSums of = real_sums(moments_, item, plan_.to.c);
      to.real = {of.sum + lane, of.square + lane, of.min + lane, of.max + lane};
    } else {
      const ExactSums of = exact_sums(moments_, item, plan_.to.c, extremes_);
      to.exact = {of.sum + lane, of.low + lane, of.high + lane, weights_.chunk};
      if (extremes_) to.exact.min = of.min + lane, to.exact.max = of.max + lane;
    }
    return to;
  }

  TableConvolution& owner_;
  const ContractionKernels& kernels_;
  const Packing& packing_;
  const GatherPlan& plan_;
  const Tensor from_;
  const Weights weights_;
  const Into to_;
  const int blocks_, step_, panels_;  // blocks of a group, blocks of a panel, panels of a group
  const int64_t phases_, visits_, items_, item_pixels_, pixel_bytes_;  // visits: panels that an item is contracted with
  const std::span<const Moments> moments_of_;                          // by group of images
  const bool extremes_;
  std::vector<int64_t> first_word_;  // of every phase's packed weights
  int64_t stretch_;                  // pixels of an item that go through all panels at once
  int64_t parts_ = 1;                // of an item's panels, which are work items of their own
  bool by_stretches_;                // they are fewer than all, and one phase has them
  char *packed_weights_, *moments_ = nullptr;
  int32_t* starts_;
  uint8_t* even_ = nullptr;  // by pixel of `to`: whether its row and its column are even
};

void TableConvolution::gather(const ContractionKernels& kernels, const GatherPlan& plan, Tensor from,
                              const Weights& weights, Into to, std::span<const Moments> moments) {
  GatherJob(*this, kernels, plan, from, weights, to, moments).run();
}

}  // namespace octet::cpu
