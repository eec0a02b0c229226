#include "kernels/cpu/conv_table.h"

#include <cstring>

namespace octet::cpu {
namespace {

template <class Plan, class Key, class Make>
const Plan& planned(std::map<Key, Plan>& plans, const Key& key, const Make& make) {
  const auto found = plans.find(key);
  return found != plans.end() ? found->second : plans.emplace(key, make()).first->second;
}

}  // namespace

TableConvolution::TableConvolution(const ContractionKernels& kernels, const ContractionKernels* depthwise,
                                   Threads threads, const ContractionKernels* digits)
    : kernels_(kernels),
      depthwise_(depthwise),
      digits_(digits),
      threads_(threads),
      workspaces_(static_cast<size_t>(threads.count)) {
  REQUIRE(threads.count >= 1, "ask for at least one thread", "a convolution with ", threads.count, " threads");
}

TableConvolution::Key TableConvolution::key_of(const ConvProblem& p) {
  return {p.x.n,      p.x.h,      p.x.w,      p.x.c,   p.y.n,   p.y.h,        p.y.w,        p.y.c,   p.kernel_h,
          p.kernel_w, p.stride_h, p.stride_w, p.pad_h, p.pad_w, p.dilation_h, p.dilation_w, p.groups};
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

const GatherPlan& TableConvolution::forward_plan(const ConvProblem& p) {
  return planned(forward_plans_, key_of(p), [&] { return plan_forward(p, kernels_for(p)); });
}

void TableConvolution::forward(const ConvForwardCall& call) {
  gather(kernels_for(call.problem), forward_plan(call.problem), call.x.values, weights_of(call.x, call.w), {call.y},
         call.moments);
}

void TableConvolution::backward_data(const ConvBackwardDataCall& call) {
  const ConvProblem& p = call.problem;
  const GatherPlan& plan = planned(backward_plans_, key_of(p), [&] { return plan_backward_data(p, kernels_for(p)); });
  gather(kernels_for(p), plan, call.dy.values, weights_of(call.dy, call.w), call.dx, {});
}

size_t TableConvolution::scratch_bytes() const {
  size_t bytes = 0;
  for (const Scratch* scratch : {&weights_, &starts_, &moments_, &sums_, &packed_, &even_, &pixel_weights_, &factors_})
    bytes += scratch->bytes();
  for (const Workspace& workspace : workspaces_)
    bytes += workspace.x.bytes() + workspace.dy.bytes() + workspace.spread.bytes() + workspace.sums.bytes();
  return bytes;
}

}  // namespace octet::cpu
