// The first layer on images of bytes (shared/pixels.h): the gather of TableConvolution with weights in digits, and a
// weight gradient of its own.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/conv_table.h"
#include "kernels/shared/pixel_weights.h"

namespace octet::cpu {
namespace {

ConvProblem of_bytes(ConvProblem problem) {
  problem.x.c = pixel_channels;
  return problem;
}

// No |y32| of these weights is larger: the weights of one sign meet the brightest pixels, and the others black.
int64_t reach_of(const int32_t* weights, int64_t channels, int64_t products) {
  int64_t most = 0;
  for (int64_t c = 0; c < channels; ++c, weights += products) {
    int64_t positive = 0, negative = 0;
    for (int64_t i = 0; i < products; ++i) (weights[i] > 0 ? positive : negative) += weights[i];
    most = std::max({most, positive, -negative});
  }
  return most + 1;
}

}  // namespace

void Convolution::forward(const PixelForwardCall&) {
  REQUIRE(false, "ask the convolutions of codes", "a convolution of real numbers takes no pixels");
}
void Convolution::backward_weight(const PixelBackwardWeightCall&) {
  REQUIRE(false, "ask the convolutions of codes", "a convolution of real numbers takes no pixels");
}

const ContractionKernels& TableConvolution::digits() const {
  REQUIRE(digits_ != nullptr, "give kernels of digits", "these convolutions of codes take no pixels");
  return *digits_;
}

void TableConvolution::forward(const PixelForwardCall& call) {
  const ConvProblem p = of_bytes(call.problem);
  const int64_t channels = p.y.c, taps = int64_t{p.kernel_h} * p.kernel_w, products = taps * pixel_channels;
  int32_t* const weights = pixel_weights_.get<int32_t>(static_cast<size_t>(channels * products));
  float* const factors = factors_.get<float>(static_cast<size_t>(blocks_of(channels) * block_lanes));
  std::fill_n(factors, blocks_of(channels) * block_lanes, 0.0f);
  run_team(threads_, [&](const Team& team) {
    team.share(channels, [&](int64_t c) {
      factors[c] = round_pixel_weights(call.w.f32() + c * taps * 3, taps, call.pixels, weights + c * products);
    });
  });
  auto plan = pixel_plans_.find(key_of(p));
  if (plan == pixel_plans_.end()) plan = pixel_plans_.emplace(key_of(p), plan_forward(p, digits())).first;
  const int64_t chunk = moment_chunk(reach_of(weights, channels, products));
  gather(digits(), plan->second, call.x, {.values = weights, .factor = factors, .chunk = chunk}, {call.y},
         call.moments);
}

// Each thread sums whole rows in int64, so that neither order nor threads show. The int32 sums of the kernels
// hold some rows of the output, and are then added to those.
class TableConvolution::PixelGradient {
 public:
  PixelGradient(TableConvolution& owner, const WeightGradientPlan& plan, const PixelBackwardWeightCall& call)
      : owner_(owner),
        kernels_(owner.digits()),
        digits_(kernels_.digits),
        packing_(kernels_.packing_of_u8),
        plan_(plan),
        call_(call),
        channels_(plan.y.c),
        blocks_(owner.blocks_of(channels_)),
        m_count_(int64_t{plan.kernel_h} * plan.kernel_w * pixel_channels),
        rows_(std::max<int64_t>(1, digits_.pixels_per_sum / plan.y.w)),
        bands_(std::min(ceil_div(owner.threads_.count, plan.items), plan.segments_of(0))),
        sum_count_(blocks_ * m_count_ * block_lanes),
        row_bytes_(int64_t{plan.words} * kernels_.block_bytes()),
        plane_bytes_(plan.x.c * plan.plane_elements * kernels_.packed_bytes() + 64 + 4 * kernels_.word_multiple) {
    scales_ = owner.factors_.get<float>(static_cast<size_t>(blocks_ * block_lanes));
    largest_ = owner.starts_.get<uint32_t>(static_cast<size_t>(owner.threads_.count * blocks_ * block_lanes));
    sums_ = owner.sums_.get<int64_t>(static_cast<size_t>(owner.threads_.count * sum_count_));
    for (Workspace& workspace : owner.workspaces_) {
      workspace.x.get(static_cast<size_t>(plane_bytes_));
      workspace.dy.get(static_cast<size_t>(std::min(rows_, plan.segments_of(0)) * row_bytes_));
      workspace.spread.get(static_cast<size_t>(m_count_ * digits_.count * block_lanes) * sizeof(int32_t));
    }
  }

  void run() {
    std::fill_n(largest_, owner_.threads_.count * blocks_ * block_lanes, 0u);
    std::fill_n(sums_, owner_.threads_.count * sum_count_, int64_t{0});
    run_team(owner_.threads_, [&](const Team& team) {
      const int64_t thread = team.thread();
      Workspace& workspace = owner_.workspace_of(team);
      memset(workspace.x.get(0), packing_.zero, static_cast<size_t>(plane_bytes_));
      team.share(plan_.items * bands_, [&](int64_t share) {
        measure(share / bands_, share % bands_, largest_ + thread * blocks_ * block_lanes);
      });
      team.share(blocks_ * block_lanes, [&](int64_t channel) { choose_scale(channel); });
      team.share(plan_.items * bands_, [&](int64_t share) {
        add_band(share / bands_, share % bands_, workspace, sums_ + thread * sum_count_);
      });
      team.share(channels_, [&](int64_t channel) { write(channel); });
    });
  }

 private:
  int lanes_of(int64_t block) const {
    return static_cast<int>(std::min<int64_t>(block_lanes, channels_ - block * block_lanes));
  }
  const float* gradient_of(int64_t item, int64_t block) const {
    return call_.dy.f32() + item * plan_.pixels_per_item() * channels_ + block * block_lanes;
  }

  // The first row of a band of an item's.
  int64_t row_of(int64_t item, int64_t band) const { return plan_.segments_of(item) * band / bands_; }

  void measure(int64_t item, int64_t band, uint32_t* largest) const {
    const int64_t first = row_of(item, band), rows = row_of(item, band + 1) - first;
    for (int64_t block = 0; block < blocks_; ++block)
      digits_.raise(gradient_of(item, block) + first * plan_.y.w * channels_, channels_, rows * plan_.y.w,
                    lanes_of(block), largest + block * block_lanes);
  }
  void choose_scale(int64_t channel) const {
    uint32_t largest = 0;
    for (int64_t thread = 0; thread < owner_.threads_.count; ++thread)
      largest = std::max(largest, largest_[thread * blocks_ * block_lanes + channel]);
    scales_[channel] = pixel_gradient_scale(largest);
  }

  void add_band(int64_t item, int64_t band, Workspace& workspace, int64_t* sums) const {
    owner_.pack_planes(kernels_, plan_, call_.x, item, workspace.x.get(0), 0, plan_.x.c);
    const int64_t end = row_of(item, band + 1);
    for (int64_t block = 0; block < blocks_; ++block)
      for (int64_t first = row_of(item, band); first < end; first += rows_)
        add_rows(first, std::min(rows_, end - first), gradient_of(item, block), block, workspace, sums);
  }

  // Rows of the item's output, whose gradient begins at `dy`.
  void add_rows(int64_t first, int64_t rows, const float* dy, int64_t block, Workspace& workspace,
                int64_t* sums) const {
    char* const words = workspace.dy.get(0);
    const int64_t filled = ceil_div(plan_.y.w, kernels_.group) * kernels_.block_bytes();
    for (int64_t row = 0; row < rows; ++row) {
      char* const to = words + row * row_bytes_;
      digits_.interleave(dy + (first + row) * plan_.y.w * channels_, channels_, plan_.y.w, lanes_of(block),
                         scales_ + block * block_lanes, to);
      memset(to + filled, 0, static_cast<size_t>(row_bytes_ - filled));
    }
    alignas(64) int32_t start[most_digits * block_lanes];
    packing_.start(words, rows * plan_.words, digits_.count, start);
    Panel work{workspace.x.get(0),
               plan_.base.data(),
               m_count_,
               plan_.segment.data() + first,
               rows,
               plan_.words,
               words,
               1,
               start};
    work.pair_step = plan_.pair_step;
    work.first = true;
    auto* const of_digits = workspace.spread.get<int32_t>(0);
    kernels_.accumulate(work, of_digits);
    int64_t* to = sums + block * m_count_ * block_lanes;
    for (int64_t m = 0; m < m_count_; ++m, to += block_lanes)
      for (int d = 0; d < digits_.count; ++d) {
        const int32_t* const from = of_digits + (m * digits_.count + d) * block_lanes;
        for (int lane = 0; lane < block_lanes; ++lane)
          to[lane] += int64_t{from[lane]} * (int64_t{1} << (digits_.bits * d));
      }
  }

  void write(int64_t channel) const {
    const int64_t taps = m_count_ / pixel_channels;
    const int64_t* from = sums_ + channel / block_lanes * m_count_ * block_lanes + channel % block_lanes;
    float* dw = call_.dw.tensor.f32() + channel * taps * 3;
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t of_tap[pixel_channels] = {};
      for (int64_t& sum : of_tap) {
        for (int64_t thread = 0; thread < owner_.threads_.count; ++thread) sum += from[thread * sum_count_];
        from += block_lanes;
      }
      for (int c = 0; c < 3; ++c, ++dw) {
        const float value = pixel_gradient(of_tap, call_.pixels, c, scales_[channel]);
        *dw = call_.dw.add ? *dw + value : value;
      }
    }
  }

  static constexpr int most_digits = 3;
  TableConvolution& owner_;
  const ContractionKernels& kernels_;
  const Digits& digits_;
  const Packing& packing_;
  const WeightGradientPlan& plan_;
  const PixelBackwardWeightCall& call_;
  const int64_t channels_, blocks_, m_count_;  // m_count_: weights of one output channel, of bytes
  const int64_t rows_;                         // of the output, whose products fit into the kernels' sums
  const int64_t bands_;                        // of an item's rows, where threads are more than items
  const int64_t sum_count_, row_bytes_, plane_bytes_;
  float* scales_;
  uint32_t* largest_;  // of each thread
  int64_t* sums_;      // of each thread: [block][m][16 lanes]
};

void TableConvolution::backward_weight(const PixelBackwardWeightCall& call) {
  const ConvProblem p = of_bytes(call.problem);
  auto plan = pixel_weight_plans_.find(key_of(p));
  if (plan == pixel_weight_plans_.end())
    plan = pixel_weight_plans_.emplace(key_of(p), plan_backward_weight(p, digits())).first;
  PixelGradient(*this, plan->second, call).run();
}

}  // namespace octet::cpu
