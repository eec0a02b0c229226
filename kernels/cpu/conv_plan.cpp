#include "kernels/cpu/conv_plan.h"

#include <algorithm>
#include <limits>
#include <span>

namespace octet::cpu {
namespace {

int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -ceil_div(-a, b); }

int32_t offset32(int64_t offset) {
  REQUIRE_USAGE(offset >= 0 && offset <= std::numeric_limits<int32_t>::max(), "use smaller images or fewer channels",
                "a packed convolution operand exceeds 2 GiB");
  return static_cast<int32_t>(offset);
}

// Pads a base table for the kernels, which read whole tiles, and returns its pair step.
int64_t complete_base(std::vector<int32_t>& base, bool depthwise) {
  const size_t count = base.size(), padded = static_cast<size_t>(round_up(static_cast<int64_t>(count), tile_multiple));
  int64_t step = count % 2 == 0 && !depthwise ? base[1] - base[0] : 0;
  for (size_t i = 0; i < count && step != 0; i += 2)
    if (base[i + 1] - base[i] != step) step = 0;
  for (size_t i = count; i < padded; ++i) base.push_back(step != 0 ? base[i - 2] : base[count - 1]);
  return step;
}

// One axis of a gather: for every phase of the output, which kernel positions reach it and by which shift.
struct Tap {
  int64_t shift;
  int kernel;
};
struct AxisPhase {
  int64_t first, count;   // output positions first, first + to_step, ...
  std::vector<Tap> taps;  // by ascending shift
};
struct GatherAxis {
  std::vector<AxisPhase> phases;
  int64_t from_step, to_step;  // from an output of a phase to the next, in positions that are read and written
};
GatherAxis forward_axis(int64_t out, int kernel, int stride, int pad, int dilation) {
  AxisPhase phase{0, out, {}};
  for (int k = 0; k < kernel; ++k) phase.taps.push_back({static_cast<int64_t>(k) * dilation - pad, k});
  return {{phase}, stride, 1};
}
GatherAxis backward_axis(int64_t in, int kernel, int stride, int pad, int dilation) {
  std::vector<AxisPhase> phases;
  for (int64_t r = 0; r < stride && r < in; ++r) {
    AxisPhase phase{r, ceil_div(in - r, stride), {}};
    for (int k = kernel - 1; k >= 0; --k) {
      const int64_t distance = r + pad - static_cast<int64_t>(k) * dilation;
      if (floor_div(distance, stride) * stride == distance) phase.taps.push_back({floor_div(distance, stride), k});
    }
    phases.push_back(phase);
  }
  return {phases, 1, stride};
}
// Halo before and after an axis of `extent` when positions 0, from_step, ... (count of them) are read at all shifts.
void widen(const GatherAxis& axis, int64_t extent, int64_t& before, int64_t& after) {
  before = after = 0;
  for (const AxisPhase& phase : axis.phases)
    for (const Tap& tap : phase.taps) {
      before = std::max(before, -tap.shift);
      after = std::max(after, (phase.count - 1) * axis.from_step + tap.shift + 1 - extent);
    }
}

// Output rows for which the same taps read the image; the other taps read its halo alone.
struct Band {
  std::vector<int64_t> rows;
  size_t first_tap, end_tap;
};
// Of a phase: first the rows of all taps. Of few rows it pays to leave the others' products with zeros out.
constexpr int64_t most_banded_rows = 14;
std::vector<Band> bands_of(const AxisPhase& phase, int64_t from_step, int64_t extent, bool split) {
  const auto read = [&](int64_t row, size_t tap) {
    const int64_t at = row * from_step + phase.taps[tap].shift;
    return at >= 0 && at < extent;
  };
  std::vector<Band> bands = {{{}, 0, phase.taps.size()}};
  for (int64_t row = 0; row < phase.count; ++row) {
    size_t first = 0, end = phase.taps.size();
    while (split && first < end && !read(row, first)) ++first;
    while (split && first < end && !read(row, end - 1)) --end;
    if (first == end) first = 0, end = phase.taps.size();
    const auto same = [&](const Band& band) { return band.first_tap == first && band.end_tap == end; };
    auto band = std::ranges::find_if(bands, same);
    if (band == bands.end()) band = bands.insert(bands.end(), {{}, first, end});
    band->rows.push_back(row);
  }
  return split && bands[0].rows.empty() ? bands_of(phase, from_step, extent, false) : bands;
}

// Depthwise: the segments hold one word each, half of it padding; make it one word per pair of segments.
void pair_taps(GatherPlan::Phase& phase) {
  std::vector<int32_t> taps;
  for (size_t i = 0; i < phase.weight_offset.size(); i += 2) taps.push_back(phase.weight_offset[i]);
  if (taps.size() % 2 == 1) {
    taps.push_back(-1);
    phase.segment.push_back(phase.segment.back());
  }
  phase.weight_offset = taps;
  phase.words = static_cast<int>(taps.size() / 2);
  phase.packed_words = phase.words;
}

// A run of taps whose packed channels are contiguous becomes one segment. Along an axis the shifts are in arithmetic
// progression, so either all neighbours are contiguous or none.
struct WeightSteps {  // from a tap to its right neighbour and to the one below, from a gathered channel to the next
  int64_t tap, row, channel;
};
GatherPlan gather(const ContractionKernels& kernels, Shape from, Shape to, int groups, const GatherAxis& vertical,
                  const GatherAxis& horizontal, const WeightSteps& weights, int64_t images = 0) {
  GatherPlan plan;
  plan.from = from;
  plan.to = to;
  plan.groups = groups;
  plan.group_from = from.c / groups;
  plan.group_to = to.c / groups;
  int64_t bottom, right;
  widen(vertical, from.h, plan.top, bottom);
  widen(horizontal, from.w, plan.left, right);
  plan.rows = from.h + plan.top + bottom;
  plan.columns = from.w + plan.left + right;
  const int64_t unit = kernels.packed_bytes();
  const int64_t image_bytes = plan.rows * plan.columns * from.c * unit;
  // By the source's bytes, not the packed ones: moments of real values are summed per item, so items must be the same
  // on every tier.
  const int64_t source_bytes = plan.rows * plan.columns * from.c * kernels.source_bytes();
  plan.images = images > 0 ? images : item_images(from.n, source_bytes, to.h * to.w);
  plan.items = ceil_div(from.n, plan.images);
  const int64_t slack = kernels.depthwise ? 64 : 4 * (kernels.word_multiple + 1);
  plan.packed_bytes = offset32(round_up(plan.images * image_bytes + slack, 64));

  const auto add_phase = [&](const AxisPhase& v, const AxisPhase& h, const Band& band, int64_t parent) {
    GatherPlan::Phase phase;
    phase.parent = parent;
    phase.pixels_per_image = static_cast<int64_t>(band.rows.size()) * h.count;
    for (int64_t image = 0; image < plan.images; ++image)
      for (const int64_t i : band.rows)
        for (int64_t j = 0; j < h.count; ++j) {
          const int64_t row = image * plan.rows + plan.top + i * vertical.from_step;
          const int64_t column = plan.left + j * horizontal.from_step;
          phase.base.push_back(offset32((row * plan.columns + column) * from.c * unit));
          phase.pixel.push_back(
              offset32((image * to.h + v.first + i * vertical.to_step) * to.w + h.first + j * horizontal.to_step));
        }
    phase.pair_step = complete_base(phase.base, kernels.depthwise);

    const size_t taps = h.taps.size();
    const bool contiguous = groups == 1 && taps > 1 && h.taps[1].shift == h.taps[0].shift + 1;
    const size_t run = contiguous ? taps : std::min<size_t>(taps, 1);
    const int64_t elements = static_cast<int64_t>(run) * plan.group_from;
    phase.words = static_cast<int>(round_up(ceil_div(elements, kernels.group), kernels.word_multiple));
    if (run == 3 && horizontal.from_step == 1 && phase.words * kernels.group == elements)
      phase.row_step = from.c * unit;
    for (const Tap& down : std::span(v.taps).subspan(band.first_tap, band.end_tap - band.first_tap))
      for (size_t first = 0; first < taps; first += run) {
        phase.segment.push_back(
            static_cast<int32_t>((down.shift * plan.columns + h.taps[first].shift) * from.c * unit));
        for (int64_t e = 0; e < static_cast<int64_t>(phase.words) * kernels.group; ++e) {
          if (e >= elements) {
            phase.weight_offset.push_back(-1);
            continue;
          }
          const Tap& across = h.taps[first + static_cast<size_t>(e / plan.group_from)];
          phase.weight_offset.push_back(offset32(down.kernel * weights.row + across.kernel * weights.tap +
                                                 e % plan.group_from * weights.channel));
        }
      }
    phase.packed_words = static_cast<int64_t>(phase.segment.size()) * phase.words;
    if (parent >= 0) {
      phase.first_word = static_cast<int64_t>(band.first_tap * ((taps + run - 1) / run)) * phase.words;
      phase.weight_offset.clear();
    }
    if (kernels.depthwise) pair_taps(phase);
    plan.phases.push_back(std::move(phase));
  };
  // Sums of codes are exact, and so are their moments: pixels may come in any order.
  const bool exact = !kernels.real && !kernels.depthwise && kernels.digits.count == 1 && images == 0;
  for (const AxisPhase& v : vertical.phases)
    for (const AxisPhase& h : horizontal.phases) {
      const int64_t parent = static_cast<int64_t>(plan.phases.size());
      const bool split = exact && !kernels.matrix && v.count <= most_banded_rows && !h.taps.empty();
      for (const Band& band : bands_of(v, vertical.from_step, from.h, split))
        add_phase(v, h, band, static_cast<int64_t>(plan.phases.size()) > parent ? parent : -1);
    }
  if (kernels.depthwise) {
    plan.depthwise = true;
    plan.groups = 1;
    plan.group_from = plan.group_to = to.c;
  }
  return plan;
}

// How the pixels of an item become segments: as few words, or cycles, as possible. Matrix units take words in groups of
// 64 pixels. Sums of real values are cut at rows (shared/sums.h), and so are those of digits.
void choose_segments(WeightGradientPlan& plan, const ContractionKernels& kernels) {
  const int64_t reach = (plan.kernel_w - 1) * plan.dilation_w;
  const auto words_of = [&](int64_t pixels) {
    return round_up(ceil_div(pixels, kernels.group), int64_t{kernels.word_multiple});
  };
  const auto choose = [&](Segments segments) {
    plan.segments = segments;
    const bool by_tap = segments == Segments::images;
    plan.phases_w = static_cast<int>(by_tap ? plan.kernel_w : std::min<int64_t>(plan.stride_w, reach + 1));
    plan.phase_step = by_tap ? plan.dilation_w : 1;
    plan.columns = plan.y.w + (by_tap ? 0 : reach / plan.stride_w);
    plan.words = static_cast<int>(words_of(plan.pixels_of(0)));
    if (segments == Segments::rows) plan.columns += plan.words * kernels.group - plan.y.w;
  };
  const auto words_in = [&](Segments segments) {
    choose(segments);
    return plan.segments_of(0) * plan.words;
  };
  // An estimate for one channel of x: two products of a word with 16 lanes take a cycle, the end of a segment as long
  // as half a word, packing 2/3 of a cycle a byte. On a Zen 4 it chooses the faster way for the layers of ResNets.
  const auto cycles = [&](Segments segments) {
    const int64_t sums = int64_t{plan.kernel_h} * plan.kernel_w * ceil_div(plan.group_dy, block_lanes);
    const double words = static_cast<double>(words_in(segments)) + static_cast<double>(plan.segments_of(0)) / 2;
    const int64_t packed = plan.phases_h * plan.phases_w * plan.images * plan.rows * plan.columns;
    return words * static_cast<double>(sums) / 2 + static_cast<double>(packed * kernels.packed_bytes()) * 2 / 3;
  };
  const auto one_pixel = [](const Shape& s) { return s.h == 1 && s.w == 1; };
  if (kernels.real || kernels.digits.count > 1) {
    const bool list = one_pixel(plan.x) && one_pixel(plan.y) && plan.kernel_h == 1 && plan.kernel_w == 1;
    return choose(kernels.real && list ? Segments::item : Segments::rows);
  }
  Segments best = words_in(Segments::item) < words_in(Segments::rows) ? Segments::item : Segments::rows;
  if (!kernels.matrix && plan.kernel_w > 1 && cycles(Segments::images) < cycles(best)) best = Segments::images;
  choose(best);
}

}  // namespace

GatherPlan plan_forward(const ConvProblem& problem, const ContractionKernels& kernels, int64_t images) {
  const ConvProblem p = images > 0 ? problem : as_pixel_list(problem);
  const int64_t group = p.x.c / p.groups, row = p.kernel_h * p.kernel_w * group;
  GatherPlan plan =
      gather(kernels, p.x, p.y, p.groups, forward_axis(p.y.h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h),
             forward_axis(p.y.w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w),
             {.tap = group, .row = p.kernel_w * group, .channel = 1}, images);
  plan.lane_step = row;
  plan.weight_group = row * plan.group_to;
  return plan;
}

GatherPlan plan_backward_data(const ConvProblem& problem, const ContractionKernels& kernels) {
  const ConvProblem p = as_linear_layer(problem);
  const int64_t group = p.x.c / p.groups, row = p.kernel_h * p.kernel_w * group;
  GatherPlan plan =
      gather(kernels, p.y, p.x, p.groups, backward_axis(p.x.h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h),
             backward_axis(p.x.w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w),
             {.tap = group, .row = p.kernel_w * group, .channel = row});
  plan.lane_step = plan.depthwise ? row : 1;
  plan.weight_group = row * plan.group_from;
  return plan;
}

WeightGradientPlan plan_backward_weight(const ConvProblem& problem, const ContractionKernels& kernels) {
  const bool digits = kernels.digits.count > 1;  // whose rows are summed some at a time
  const ConvProblem p = digits ? problem : kernels.real ? as_pixel_list(problem) : as_linear_layer(problem);
  WeightGradientPlan plan(p);
  plan.images = gradient_images(p);
  // A matrix unit computes faster than it reads and writes a large gradient: more pixels per item. The sums are exact,
  // so items may end anywhere.
  const int64_t weights = int64_t{p.y.c} * p.kernel_h * p.kernel_w * plan.group_x;
  if (kernels.matrix && weights > small_gradient)
    plan.images = std::clamp<int64_t>(ceil_div(1024, p.y.h * p.y.w), 1, p.x.n);
  plan.items = ceil_div(p.x.n, plan.images);
  const int64_t reach_h = (p.kernel_h - 1) * p.dilation_h;
  plan.phases_h = static_cast<int>(std::min<int64_t>(p.stride_h, reach_h + 1));
  plan.rows = p.y.h + reach_h / p.stride_h;
  choose_segments(plan, kernels);
  const int64_t unit = kernels.packed_bytes(), phase_elements = plan.images * plan.rows * plan.columns;
  plan.plane_elements = plan.phases_h * plan.phases_w * phase_elements;
  if (plan.plane_elements * unit % 128 == 0) plan.plane_elements += 64 / unit;  // or planes would share cache sets
  const bool by_tap = plan.segments == Segments::images;
  for (int64_t h = 0; h <= reach_h; h += p.dilation_h)
    for (int64_t tap = 0; tap < p.kernel_w; ++tap) {
      const int64_t w = tap * p.dilation_w, phase_w = by_tap ? tap : w % p.stride_w;
      const int64_t at = (h % p.stride_h * plan.phases_w + phase_w) * phase_elements + h / p.stride_h * plan.columns +
                         (by_tap ? 0 : w / p.stride_w);
      for (int64_t c = 0; c < plan.group_x; ++c) plan.base.push_back(offset32((c * plan.plane_elements + at) * unit));
    }
  plan.pair_step = complete_base(plan.base, false);
  const int64_t of_image = std::max<int64_t>(1, plan.segments_of(0) / plan.images);
  for (int64_t segment = 0; segment < plan.segments_of(0); ++segment)
    plan.segment.push_back(offset32((segment / of_image * plan.rows + segment % of_image) * plan.columns * unit));
  return plan;
}

}  // namespace octet::cpu
