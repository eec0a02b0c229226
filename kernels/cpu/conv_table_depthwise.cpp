// The depthwise weight gradient of TableConvolution: x is packed as for forward, lanes are channels, pairs of pixels
// are words.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/conv_table.h"
#include "kernels/shared/sums.h"

namespace octet::cpu {

void TableConvolution::backward_weight_depthwise(const ConvBackwardWeightCall& call) {
  const ConvProblem& p = call.problem;
  const QTensor &x = call.x, &dy = call.dy;
  const ContractionKernels& kernels = *depthwise_;
  const GatherPlan& plan = forward_plan(p);
  const GatherPlan::Phase& phase = plan.phases.front();
  const int64_t channels = p.x.c, taps = static_cast<int64_t>(p.kernel_h) * p.kernel_w;
  const int64_t item_pixels = plan.images * phase.pixels_per_image;
  const int64_t most = products_per_sum(x.values.dtype);
  const int blocks = blocks_of(channels), step = kernels.max_blocks;
  const int64_t slot_sums = blocks * taps * block_lanes;
  const int64_t items_per_sum = most / item_pixels;
  const int64_t slots =
      std::max((plan.items + items_per_sum - 1) / items_per_sum, std::min<int64_t>(threads_.count, plan.items));
  auto* sums = sums_.get<int32_t>(static_cast<size_t>(slots * slot_sums));
  const int64_t dy_bytes = item_pixels * channels * kernels.packed_bytes() + 64;
  for (Workspace& workspace : workspaces_) {
    workspace.x.get(static_cast<size_t>(plan.packed_bytes));
    workspace.dy.get(static_cast<size_t>(dy_bytes));
  }
  run_team(threads_, [&](const Team& team) {
    Workspace& workspace = workspace_of(team);
    char *packed = workspace.x.get(0), *packed_dy = workspace.dy.get(0);
    memset(packed, kernels.packing_of(x.values.dtype).zero, static_cast<size_t>(plan.packed_bytes));
    team.share(slots, [&](int64_t slot) {
      int32_t* slot_at = sums + slot * slot_sums;
      memset(slot_at, 0, static_cast<size_t>(slot_sums) * sizeof(int32_t));
      for (int64_t item = plan.items * slot / slots; item < plan.items * (slot + 1) / slots; ++item) {
        const int64_t pixels = plan.images_of(item) * phase.pixels_per_image;
        pack_images(kernels, plan, x.values, item, packed);
        kernels.packing.pack(dy.values.s8() + item * item_pixels * channels, packed_dy, pixels * channels);
        for (int first = 0; first < blocks; first += step) {
          const int64_t lane = first * block_lanes * kernels.packed_bytes();
          Panel panel{packed + lane, phase.base.data(), pixels,           phase.segment.data(),
                      taps,          phase.words,       packed_dy + lane, std::min(step, blocks - first),
                      nullptr};
          panel.pixel_step = channels * kernels.packed_bytes();
          kernels.accumulate(panel, slot_at + first * taps * block_lanes);
        }
      }
    });
  });
  const float scale = *x.scale * *dy.scale;
  for (int64_t c = 0; c < channels; ++c) {
    const int first = static_cast<int>(c / (step * block_lanes)) * step,
              panel_lanes = std::min(step, blocks - first) * block_lanes;
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t total = 0;
      const int32_t* at = sums + first * taps * block_lanes + tap * panel_lanes + c % (step * block_lanes);
      for (int64_t slot = 0; slot < slots; ++slot) total += at[slot * slot_sums];
      const float value = static_cast<float>(total) * scale;
      float& out = call.dw.tensor.f32()[c * taps + tap];
      out = call.dw.add ? out + value : value;
    }
  }
}

}  // namespace octet::cpu
