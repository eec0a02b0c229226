#include "kernels/cpu/conv_codes.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/cpu/parallel.h"

namespace octet::cpu {
namespace {

constexpr int64_t cached_bytes = 128 * 1024;  // that an item reads and writes, beside the weights of a panel
constexpr int64_t fetched_bytes = 24 * 1024;  // of the next panel's weights; a longer one is read as a stream
constexpr int64_t least_pixels = 48;          // of an item, if there are so many: each item reads all weights

// The rows of x that `rows` rows of y read, of `images` images, as a problem of its own. What lies outside of an image
// above or below is packed with it.
ConvProblem part_of(const ConvProblem& p, int64_t images, int64_t rows) {
  ConvProblem part = p;
  part.x.n = part.y.n = images;
  part.y.h = rows;
  part.pad_h = 0;
  part.x.h = (rows - 1) * p.stride_h + int64_t{p.kernel_h - 1} * p.dilation_h + 1;
  if (rows == p.y.h && p.pad_h == 0) part.x.h = std::max(part.x.h, p.x.h);
  return part;
}

}  // namespace

SumBounds bound_sums(double factor, double residual_factor, DType residual, int lowest, int highest, double reach) {
  constexpr double limit = 1 << 24;  // f32 holds integers up to it
  constexpr SumBounds not_at_all{false, 0, 0};
  const bool adds = residual_factor != 0;
  if (!(factor >= 0x1p-60 && factor <= 1 && factor == double(float(factor)))) return not_at_all;
  // With a residual, values have 12 bits of a fraction, and 22 bits in all.
  if (!(residual_factor >= 0 && residual_factor <= 2)) return not_at_all;
  const double low = (residual == DType::u8 ? 0 : -128) * residual_factor;
  const double high = (residual == DType::u8 ? 255 : 127) * residual_factor;
  // The sums from which on the code is `highest`, or `lowest`, whatever the residual. One more if rounding is in doubt.
  double most = std::ceil((highest - low) / factor), least = std::floor((lowest - high) / factor);
  if (adds || most * factor + low < highest) most += 1;
  if (adds || least * factor + high > lowest) least -= 1;
  if (most > limit || least < -limit) {
    if (reach > limit) return not_at_all;
    most = std::min(most, limit), least = std::max(least, -limit);
  }
  const auto code = [&](double sum) { return std::nearbyint(sum * factor); };
  const bool ends_fit = (most == limit || code(most) == highest) && (least == -limit || code(least) == lowest);
  if (!adds && !ends_fit) return not_at_all;
  return {true, int32_t(least), int32_t(most)};
}

CodeConvolution::CodeConvolution(const ContractionKernels& kernels, const ConvRequantizeCall& call,
                                 std::vector<Scratch>& packed)
    : kernels_(kernels),
      scratch_(packed),
      problem_(kernels.depthwise ? call.problem : as_linear_layer(call.problem)),
      packing_(kernels.packing_of(call.x.dtype)),
      lowest_(call.how.lowest),
      highest_(call.how.highest) {
  cut(kernels);
  plan_ = plan_forward(part_of(problem_, images_, rows_), kernels, images_);
  blocks_ = int(ceil_div(plan_.group_to, block_lanes));
  panels_ = int(ceil_div(blocks_, kernels.max_blocks));
  const int64_t wanted = 4 * int64_t(scratch_.size()), panels = int64_t{plan_.groups} * panels_;
  shares_ = int(std::clamp<int64_t>(ceil_div(wanted, items_), 1, panels));
  const ConvProblem& p = problem_;
  const bool whole_words = p.x.c / p.groups % (kernels.group * kernels.word_multiple) == 0;
  const bool within = p.pad_h == 0 && p.pad_w == 0 &&
                      end_padding(p.x.h, p.y.h, p.kernel_h, p.stride_h, 0, p.dilation_h) == 0 && plan_.left == 0 &&
                      plan_.columns == p.x.w && (images_ == 1 || plan_.rows == p.x.h);
  // Kernels with whole tiles also read what is behind the last pixel in the table: it must not lie behind x.
  const std::vector<int32_t>& base = plan_.phases.front().base;
  const int64_t rest = images_ == 1 ? p.y.h % rows_ * p.y.w : p.x.n % images_ * p.y.h * p.y.w;
  rest_.assign(base.begin(), base.begin() + rest);
  if (rest > 0) rest_.resize(static_cast<size_t>(ceil_div(rest, tile_multiple) * tile_multiple), rest_.back());
  in_place_ = kernels.packed_bytes() == 1 && packing_.zero == 0 && whole_words && within;
  pack_weights(call.how, call.w, call.residual, call.y.dtype);
}

// Items that are few enough for the cache and enough for the threads. Where rows allow, they end with a whole tile.
void CodeConvolution::cut(const ContractionKernels& kernels) {
  const ConvProblem& p = problem_;
  const int64_t pixel = p.x.c * kernels.packed_bytes() * p.stride_h * p.stride_w + p.y.c;
  const int64_t share = ceil_div(p.y.pixels(), 4 * int64_t(scratch_.size()));
  const int64_t pixels = std::max(least_pixels, std::min(share, std::max<int64_t>(least_pixels, cached_bytes / pixel)));
  const int64_t in_image = p.y.h * p.y.w;
  if (in_image <= pixels) {
    images_ = std::min(p.x.n, std::max<int64_t>(1, pixels / in_image));
    if (in_image == 1) images_ = std::min(p.x.n, ceil_div(images_, tile_multiple) * tile_multiple);
    rows_ = p.y.h;
  } else {
    const int64_t step = 8 / std::gcd<int64_t>(8, p.y.w);
    rows_ = std::min(p.y.h, ceil_div(std::max<int64_t>(1, pixels / p.y.w), step) * step);
  }
  bands_ = ceil_div(p.y.h, rows_);
  items_ = bands_ * ceil_div(p.x.n, images_);
}

void CodeConvolution::pack_weights(const Requantization& how, Tensor weights, Tensor residual, DType y) {
  const GatherPlan::Phase& phase = plan_.phases.front();
  const int64_t lanes = int64_t{plan_.groups} * blocks_ * block_lanes;
  packed_ = weights_.get(static_cast<size_t>(lanes * phase.packed_words * 4));
  const auto by_lane = [lanes](auto*& part, auto* whole, int64_t index) { part = whole + index * lanes; };
  auto* const integers = sums_.get<int32_t>(static_cast<size_t>(3 * lanes));
  by_lane(start_, integers, 0), by_lane(least_, integers, 1), by_lane(most_, integers, 2);
  auto* const doubles = doubles_.get<double>(static_cast<size_t>(2 * lanes));
  by_lane(factor_, doubles, 0), by_lane(residual_factor_, doubles, 1);
  auto* const floats = floats_.get<float>(static_cast<size_t>(2 * lanes));
  by_lane(short_factor_, floats, 0), by_lane(short_residual_factor_, floats, 1);
  in_floats_.resize(static_cast<size_t>(plan_.groups * panels_));
  parallel_for(int(scratch_.size()), plan_.groups * panels_, [&](int64_t i) {
    const int panel = int(i), count = blocks_in(panel);
    const int64_t first = panel % panels_ * kernels_.max_blocks * block_lanes, group = panel / panels_;
    char* const to = packed_weights(panel);
    for (int block = 0; block < count; ++block) {
      const int64_t lane = first + block * block_lanes;
      kernels_.pack_weights(weights.s8() + group * plan_.weight_group + lane * plan_.lane_step, plan_.lane_step,
                            int(std::min<int64_t>(block_lanes, plan_.group_to - lane)), phase.weight_offset.data(),
                            phase.packed_words, to + block * 64, count * block_lanes);
    }
    packing_.start(to, phase.packed_words, count, start_ + block_of(panel) * block_lanes);
  });
  keep_rounding(how, weights, residual, y);
}

// Biases join the starts of sums. Lanes without a channel have zeros.
void CodeConvolution::keep_rounding(const Requantization& how, Tensor weights, Tensor residual, DType y) {
  const int64_t products = weights.elements() / weights.shape.n;
  for (int panel = 0; panel < plan_.groups * panels_; ++panel) {
    bool in_floats = !is_real(y);
    for (int64_t i = 0; i < int64_t{blocks_in(panel)} * block_lanes; ++i) {
      const int64_t own = panel % panels_ * kernels_.max_blocks * block_lanes + i;
      const int64_t channel = panel / panels_ * plan_.group_to + own, lane = block_of(panel) * block_lanes + i;
      const bool exists = own < plan_.group_to;
      factor_[lane] = exists ? how.factor[channel] : 0;
      residual_factor_[lane] = exists && residual ? how.residual_factor[channel] : 0;
      const double unit = residual ? 4096 : 1;
      short_factor_[lane] = float(unit * factor_[lane]);
      short_residual_factor_[lane] = float(unit * residual_factor_[lane]);
      least_[lane] = most_[lane] = 0;
      if (!exists) continue;
      // (wraps around as sums do: their start may hold an offset of the packing)
      start_[lane] = int32_t(uint32_t(start_[lane]) + uint32_t(how.bias[channel]));
      double reach = std::abs(double(how.bias[channel]));
      for (int64_t k = 0; k < products; ++k) reach += 255 * std::abs(double(weights.s8()[channel * products + k]));
      const SumBounds bounds =
          bound_sums(factor_[lane], residual_factor_[lane], residual.dtype, lowest_, highest_, reach);
      in_floats = in_floats && bounds.in_floats;
      least_[lane] = bounds.least, most_[lane] = bounds.most;
    }
    in_floats_[size_t(panel)] = in_floats;
  }
}

CodeConvolution::Item CodeConvolution::item(int64_t index) const {
  const int64_t image = index / bands_ * images_, row = index % bands_ * rows_;
  return {image, std::min(images_, problem_.x.n - image), row, std::min(rows_, problem_.y.h - row)};
}

// Where the item's pixels begin. Halo and rows outside of the image are zeros.
const char* CodeConvolution::pack(const Item& item, Tensor x, char* packed) const {
  const ConvProblem& p = problem_;
  const int64_t unit = kernels_.packed_bytes(), source_row = p.x.w * p.x.c, packed_row = plan_.columns * p.x.c * unit;
  const int64_t before = plan_.left * p.x.c * unit, inside = source_row * unit;
  const int64_t first = item.row * p.stride_h - p.pad_h;
  const char* const images = x.as<const char>() + item.image * p.x.h * source_row;
  if (in_place_) return images + first * source_row;
  const int64_t needed = (item.rows - 1) * p.stride_h + int64_t{p.kernel_h - 1} * p.dilation_h + 1;
  const bool plain = packed_row == inside && first >= 0 && first + needed <= p.x.h && needed == plan_.rows;
  if (plain && needed == p.x.h) {  // whole images; those of 1x1 convolutions are single pixels
    packing_.pack(images, packed, item.images * needed * source_row);
    return packed;
  }
  char* to = packed;
  for (int64_t image = 0; image < item.images; ++image, to = packed + image * plan_.rows * packed_row) {
    const char* const from = images + image * p.x.h * source_row;
    if (plain) {
      packing_.pack(from + first * source_row, to, needed * source_row);
      continue;
    }
    for (int64_t row = first; row < first + needed; ++row, to += packed_row) {
      if (row < 0 || row >= p.x.h) {
        memset(to, packing_.zero, static_cast<size_t>(packed_row));
        continue;
      }
      memset(to, packing_.zero, static_cast<size_t>(before));
      const int64_t read = std::min(inside, packed_row - before);  // a stride may leave columns that no tap reads
      packing_.pack(from + row * source_row, to + before, read / unit);
      memset(to + before + read, packing_.zero, static_cast<size_t>(packed_row - before - read));
    }
  }
  return packed;
}

void CodeConvolution::contract(const Item& item, int panel, const char* packed, Tensor residual, Tensor y) const {
  const GatherPlan::Phase& phase = plan_.phases.front();
  const int64_t lane = block_of(panel) * block_lanes, unit = static_cast<int64_t>(size_of(y.dtype));
  const int64_t own = panel % panels_ * kernels_.max_blocks * block_lanes, group = panel / panels_;
  const int64_t from = (plan_.depthwise ? own : group * plan_.group_from) * kernels_.packed_bytes();
  const int64_t pixel = (item.image * problem_.y.h + item.row) * problem_.y.w;
  const int64_t at = pixel * problem_.y.c + group * plan_.group_to + own;
  Panel work{packed + from,
             item.images < images_ || item.rows < rows_ ? rest_.data() : phase.base.data(),
             item.images * item.rows * problem_.y.w,
             phase.segment.data(),
             static_cast<int64_t>(phase.segment.size()),
             phase.words,
             packed_weights(panel),
             blocks_in(panel),
             start_ + lane};
  work.pair_step = phase.pair_step, work.row_step = phase.row_step;
  const int next = panel + 1;
  const int64_t bytes = next < plan_.groups * panels_ ? blocks_in(next) * phase.packed_words * 64 : 0;
  if (bytes > 0 && bytes <= fetched_bytes) work.ahead[0] = {packed_weights(next), bytes};
  const CodeRounding rounding{factor_ + lane,
                              residual_factor_ + lane,
                              residual ? residual.as<const char>() + at : nullptr,
                              residual.dtype == DType::u8,
                              lowest_,
                              highest_,
                              is_real(y.dtype),
                              in_floats_[size_t(panel)],
                              least_ + lane,
                              most_ + lane,
                              short_factor_ + lane,
                              short_residual_factor_ + lane};
  Destination to{};
  to.y = y.as<char>() + at * unit;
  to.pixel = phase.pixel.data();
  to.channels = problem_.y.c;
  to.lanes = int(std::min<int64_t>(blocks_in(panel) * block_lanes, plan_.group_to - own));
  to.codes = &rounding;
  kernels_.contract(work, to);
}

void CodeConvolution::run(Tensor x, Tensor residual, Tensor y) {
  const int panels = plan_.groups * panels_, threads = items_ * shares_ > 1 ? int(scratch_.size()) : 1;
  for (Scratch& scratch : scratch_) scratch.get(in_place_ ? 0 : static_cast<size_t>(plan_.packed_bytes));
  run_team(threads, [&](const Team& team) {
    char* const packed = scratch_[static_cast<size_t>(team.thread())].get(0);
    team.deal(items_ * shares_, 1, [&](int64_t unit) {
      const Item of = item(unit / shares_);
      const int64_t share = unit % shares_;
      const char* const from = pack(of, x, packed);
      for (int panel = int(panels * share / shares_); panel < int(panels * (share + 1) / shares_); ++panel)
        contract(of, panel, from, residual, y);
    });
  });
}

}  // namespace octet::cpu
