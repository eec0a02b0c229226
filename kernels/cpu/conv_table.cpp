#include "kernels/cpu/conv_table.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace octet::cpu {
namespace {

template <class Plan, class Key, class Make>
const Plan& planned(std::map<Key, Plan>& plans, const Key& key, const Make& make) {
  const auto found = plans.find(key);
  return found != plans.end() ? found->second : plans.emplace(key, make()).first->second;
}

constexpr int64_t cached_weights = 24 * 1024, cached_pixels = 2 * moment_pixels;

// The moments of one work item: per channel, doubles first.
struct ItemMoments {
  double *sum, *square;
  float *min, *max;
  ItemMoments(char* memory, int64_t item, int64_t channels) {
    char* at = memory + item * channels * bytes_per_channel;
    sum = reinterpret_cast<double*>(at);
    square = sum + channels;
    min = reinterpret_cast<float*>(square + channels);
    max = min + channels;
  }
  static constexpr int64_t bytes_per_channel = 24;
  void clear(int64_t channels) const {
    std::fill_n(sum, 2 * channels, 0.0);
    std::fill_n(min, channels, std::numeric_limits<float>::infinity());
    std::fill_n(max, channels, -std::numeric_limits<float>::infinity());
  }
};

}  // namespace

TableConvolution::TableConvolution(const ContractionKernels& kernels, const ContractionKernels* depthwise, int threads)
    : kernels_(kernels), depthwise_(depthwise), threads_(threads), workspaces_(static_cast<size_t>(threads)) {
  REQUIRE(threads >= 1, "ask for at least one thread", "a convolution with ", threads, " threads");
}

TableConvolution::Key TableConvolution::key_of(const ConvProblem& p) {
  return {p.x.n,      p.x.h,      p.x.w,      p.x.c,   p.y.n,   p.y.h,        p.y.w,        p.y.c,   p.kernel_h,
          p.kernel_w, p.stride_h, p.stride_w, p.pad_h, p.pad_w, p.dilation_h, p.dilation_w, p.groups};
}

void TableConvolution::check(const ConvProblem& p, const QTensor& a, const QTensor& b) const {
  REQUIRE(a.real() == kernels_.real && b.real() == kernels_.real, "quantize both operands or none", "a convolution of ",
          kernels_.real ? "real values" : "codes", " got the other kind");
  REQUIRE(b.values.dtype != DType::u8, "give s8", "a weight or an error of unsigned codes");
  REQUIRE(p.x.c % p.groups == 0 && p.y.c % p.groups == 0, "choose groups that divide both channel counts", p.groups,
          " groups for ", p.x.c, " -> ", p.y.c, " channels");
}

Ahead TableConvolution::source_of(const ContractionKernels& kernels, const GatherPlan& plan, const char* from,
                                  int64_t item) {
  if (item >= plan.items) return {};
  const int64_t image = plan.from.h * plan.from.w * plan.from.c * kernels.source_bytes();
  return {from + item * plan.images * image, plan.images_of(item) * image};
}

void TableConvolution::pack_images(const ContractionKernels& kernels, const GatherPlan& plan, Tensor from, int64_t item,
                                   char* packed) const {
  const auto pack = kernels.packing_of(from.dtype).pack;
  const int64_t source_row = plan.from.w * plan.from.c, packed_row = plan.columns * plan.from.c;
  const int64_t images = plan.images_of(item), unit = kernels.packed_bytes();
  const char* src = from.as<const char>() + item * plan.images * plan.from.h * source_row * kernels.source_bytes();
  if (packed_row == source_row && plan.rows == plan.from.h) return pack(src, packed, images * plan.rows * packed_row);
  for (int64_t image = 0; image < images; ++image)
    for (int64_t row = 0; row < plan.from.h; ++row, src += source_row * kernels.source_bytes())
      pack(src, packed + (((image * plan.rows + plan.top + row) * plan.columns + plan.left) * plan.from.c) * unit,
           source_row);
}

void TableConvolution::run(const ContractionKernels& kernels, const GatherPlan& plan, QTensor source, QTensor w,
                           Into to, Moments moments) {
  const Tensor from = source.values;
  const Packing& packing = kernels.packing_of(from.dtype);
  const int blocks = blocks_of(plan.group_to), step = kernels.max_blocks, panels = (blocks + step - 1) / step;
  const int64_t phases = static_cast<int64_t>(plan.phases.size());
  std::vector<int64_t> first_word{0};  // of every phase's packed weights
  for (const auto& phase : plan.phases)
    first_word.push_back(first_word.back() + plan.groups * blocks * phase.packed_words);
  char* packed_weights = weights_.get(static_cast<size_t>(first_word.back()) * 64);
  int32_t* starts = starts_.get<int32_t>(static_cast<size_t>(phases * plan.groups * blocks * block_lanes));
  const int64_t channels = to.tensor.shape.c;
  const int64_t lanes = plan.groups * blocks * block_lanes;
  float* const factors = factors_.get<float>(static_cast<size_t>(lanes));
  std::fill_n(factors, lanes, kernels.real ? 1.0f : *source.scale * *w.scale);
  char* item_moments =
      moments ? moments_.get(static_cast<size_t>(plan.items * plan.to.c * ItemMoments::bytes_per_channel)) : nullptr;
  for (Workspace& workspace : workspaces_) workspace.x.get(static_cast<size_t>(plan.packed_bytes));

  // While all weights fit into the first-level cache, few pixels at a time go through all panels: their outputs stay
  // there too.
  const int64_t stretch =
      plan.groups * panels > 1 && first_word.back() * 64 <= cached_weights ? cached_pixels : int64_t{1} << 40;
  const auto for_each_panel = [&](const GatherPlan& gather, int64_t f, int64_t item, const auto& visit) {
    const auto& phase = gather.phases[static_cast<size_t>(f)];
    const int64_t pixels = gather.images_of(item) * phase.pixels_per_image;
    for (int64_t begin = 0; begin < pixels; begin += stretch)
      for (int g = 0; g < gather.groups; ++g)
        for (int p = 0; p < panels; ++p) visit(phase, begin, std::min(begin + stretch, pixels), g, p);
  };

  // Panels and phases write their part of the output in pieces: so the part after it is fetched before, as it lies.
  const int64_t visits = phases * plan.groups * panels, pixel_bytes = channels * int64_t(size_of(to.tensor.dtype));
  const bool by_stretches = stretch == cached_pixels && visits == panels;
  const int64_t item_pixels = plan.images * plan.to.h * plan.to.w;
  const auto output = [&](int64_t item, int64_t first, int64_t pixels) -> Ahead {
    if (visits == 1) return {};
    first += item * item_pixels;
    const int64_t end = std::min(first + pixels, to.tensor.shape.pixels());
    return {static_cast<const char*>(to.tensor.data) + first * pixel_bytes,
            std::max<int64_t>(0, end - first) * pixel_bytes};
  };

  // Neighbours, since each item fetches the next one's memory; few enough that every thread gets its share.
  const int64_t together = std::clamp<int64_t>(plan.items / (4 * threads_), 1, 4);

#pragma omp parallel num_threads(threads_)
  {
    char* packed = workspaces_[static_cast<size_t>(omp_get_thread_num())].x.get(0);
    memset(packed, packing.zero, static_cast<size_t>(plan.packed_bytes));
#pragma omp for collapse(3) schedule(static)
    for (int64_t f = 0; f < phases; ++f)
      for (int g = 0; g < plan.groups; ++g)
        for (int p = 0; p < panels; ++p) {
          const auto& phase = plan.phases[static_cast<size_t>(f)];
          const int first = p * step, count = std::min(step, blocks - first);
          const int64_t words = phase.packed_words;
          char* panel = packed_weights + (first_word[static_cast<size_t>(f)] + (g * blocks + first) * words) * 64;
          for (int block = 0; block < count; ++block) {
            const int64_t lane = (first + block) * block_lanes;
            kernels.pack_weights(
                w.values.as<const char>() + (g * plan.weight_group + lane * plan.lane_step) * kernels.source_bytes(),
                plan.lane_step, static_cast<int>(std::min<int64_t>(block_lanes, plan.group_to - lane)),
                phase.weight_offset.data(), words, panel + block * 64, count * block_lanes);
          }
          packing.start(panel, words, count, starts + ((f * plan.groups + g) * blocks + first) * block_lanes);
        }
#pragma omp for schedule(dynamic, together)
    for (int64_t item = 0; item < plan.items; ++item) {
      Ahead ahead = source_of(kernels, plan, from.as<const char>(), item + 1);
      const int64_t share = ahead.bytes / visits + 64;
      Ahead written = by_stretches ? Ahead{} : output(item + 1, 0, item_pixels);
      pack_images(kernels, plan, from, item, packed);
      if (moments) ItemMoments(item_moments, item, plan.to.c).clear(plan.to.c);
      for (int64_t f = 0; f < phases; ++f)
        for_each_panel(plan, f, item, [&](const GatherPlan::Phase& phase, int64_t begin, int64_t end, int g, int p) {
          const int first = p * step, count = std::min(step, blocks - first);
          const int64_t lane = g * plan.group_to + first * block_lanes, block = g * blocks + first;
          Panel panel{packed + (plan.depthwise ? lane : g * plan.group_from) * kernels.packed_bytes(),
                      phase.base.data() + begin,
                      end - begin,
                      phase.segment.data(),
                      static_cast<int64_t>(phase.segment.size()),
                      phase.words,
                      packed_weights + (first_word[static_cast<size_t>(f)] + block * phase.packed_words) * 64,
                      count,
                      starts + (f * plan.groups * blocks + block) * block_lanes};
          panel.pair_step = phase.pair_step;
          panel.row_step = phase.row_step;
          panel.ahead[0] = ahead.take(share);
          Destination destination{};
          destination.scale = factors + block * block_lanes;
          destination.y =
              static_cast<char*>(to.tensor.data) + (item * plan.images * plan.to.h * plan.to.w * channels + lane) *
                                                       static_cast<int64_t>(size_of(to.tensor.dtype));
          destination.pixel = phase.pixel.data() + begin;
          if (by_stretches && p == 0) written = output(item, end, end - begin);
          panel.ahead[1] = written.take((by_stretches ? end - begin : item_pixels) * pixel_bytes / visits + 64);
          destination.channels = channels;
          destination.lanes =
              static_cast<int>(std::min<int64_t>(count * block_lanes, plan.group_to - first * block_lanes));
          destination.bf16 = to.tensor.dtype == DType::bf16;
          destination.add = to.add;
          if (moments) {
            const ItemMoments of(item_moments, item, plan.to.c);
            destination.sum = of.sum + lane;
            destination.square = of.square + lane;
            destination.min = of.min + lane;
            destination.max = of.max + lane;
          }
          kernels.contract(panel, destination);
        });
    }
  }
  if (moments) combine(plan, moments);
}

void TableConvolution::combine(const GatherPlan& plan, Moments moments) const {
  const int64_t channels = plan.to.c;
  const double count = static_cast<double>(plan.to.pixels());
  char* memory = const_cast<Scratch&>(moments_).get(0);
  ItemMoments total(memory, 0, channels);
  for (int64_t item = 1; item < plan.items; ++item) {
    const ItemMoments part(memory, item, channels);
    for (int64_t c = 0; c < channels; ++c) {
      total.sum[c] += part.sum[c];
      total.square[c] += part.square[c];
      total.min[c] = std::min(total.min[c], part.min[c]);
      total.max[c] = std::max(total.max[c], part.max[c]);
    }
  }
  for (int64_t c = 0; c < channels; ++c) {
    const double mean = total.sum[c] / count;
    moments.mean[c] = static_cast<float>(mean);
    moments.variance[c] = static_cast<float>(std::max(0.0, total.square[c] / count - mean * mean));
    if (moments.min != nullptr) moments.min[c] = total.min[c];
    if (moments.max != nullptr) moments.max[c] = total.max[c];
  }
}

const GatherPlan& TableConvolution::forward_plan(const ConvProblem& p) {
  return planned(forward_plans_, key_of(p), [&] { return plan_forward(p, kernels_for(p)); });
}

void TableConvolution::forward(const ConvProblem& p, QTensor x, QTensor w, Tensor y, Moments moments) {
  check(p, x, w);
  const GatherPlan& plan = forward_plan(p);
  run(kernels_for(p), plan, x, w, {y, false}, moments);
}

void TableConvolution::backward_data(const ConvProblem& p, QTensor dy, QTensor w, Into dx) {
  check(p, dy, w);
  const GatherPlan& plan = planned(backward_plans_, key_of(p), [&] { return plan_backward_data(p, kernels_for(p)); });
  run(kernels_for(p), plan, dy, w, dx, {});
}

size_t TableConvolution::scratch_bytes() const {
  size_t bytes = weights_.bytes() + starts_.bytes() + factors_.bytes() + moments_.bytes() + sums_.bytes();
  for (const Workspace& workspace : workspaces_)
    bytes += workspace.x.bytes() + workspace.dy.bytes() + workspace.spread.bytes();
  return bytes;
}

}  // namespace octet::cpu
