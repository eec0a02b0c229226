// Quantization of many tensors in a few launches: a network's weights are small, and a launch takes as long as most.
#define OCTET_FLUSH_SUBNORMALS  // read and written as zero, as in the CPU's passes; the build adds nvcc's -ftz=true
#include "kernels/cuda/backend.h"
#include "kernels/cuda/encode_tensor.h"
#include "kernels/cuda/table.h"

namespace octet::cuda {
namespace {

constexpr int block_elements = 4 * threads;

// f32 to codes, rounded to nearest.
struct QuantizeItem {
  const float* from;
  int8_t* to;
  float* scale;
  const float* held;
  int64_t count;
  int lowest, qmax;
  Range range;
};
using QuantizeItems = Table<QuantizeItem, 56>;

__global__ void largest_of_items(const __grid_constant__ QuantizeItems items, ClipRange* ranges) {
  const QuantizeItems::Place place(items);
  const QuantizeItem& own = items.at[place.item];
  float largest = 0;
#pragma unroll
  for (int k = 0; k < block_elements; k += threads) {
    const int64_t i = place.block * block_elements + k + static_cast<int>(threadIdx.x);
    if (i < own.count) largest = fmaxf(largest, magnitude_of(own.from[i]));  // a NaN is not the largest
  }
  largest = largest_of_block<threads>(largest);
  if (threadIdx.x == 0) atomicMax(&ranges[place.item].largest, bits_of(largest));
}

__global__ void ranges_of_items(const __grid_constant__ QuantizeItems items, ClipRange* ranges) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= items.count) return;
  const QuantizeItem& own = items.at[i];
  const float clip = own.range == Range::held ? *own.held : float_of(ranges[i].largest);
  *own.scale = complete(ranges[i], clip, own.qmax);
}

__global__ void codes_of_items(const __grid_constant__ QuantizeItems items, const ClipRange* ranges) {
  const QuantizeItems::Place place(items);
  const QuantizeItem& own = items.at[place.item];
  const float inverse_scale = ranges[place.item].inverse_scale;
#pragma unroll
  for (int k = 0; k < block_elements; k += threads) {
    const int64_t i = place.block * block_elements + k + static_cast<int>(threadIdx.x);
    if (i < own.count)
      own.to[i] = static_cast<int8_t>(encode_nearest(own.from[i], inverse_scale, own.lowest, own.qmax));
  }
}

bool fits(const QuantizeCall& call) {
  const Probe& probe = call.probe;
  return call.from.dtype == DType::f32 && call.encoding.quantized() && call.encoding.rounding == Rounding::nearest &&
         !probe.histogram && !probe.saturated && !probe.largest;
}

}  // namespace

void CudaBackend::compute_all(std::span<const QuantizeCall> calls) {
  launch_in_tables<QuantizeItems>(
      calls,
      [&](const QuantizeCall& call, QuantizeItems& items) {
        if (!fits(call)) return compute(call);
        const auto& [from, encoding, key, to, probe] = call;
        REQUIRE(encoding.range != Range::held || encoding.held != nullptr, "give the clip",
                "a held range without a clip");
        items.add({from.f32(), static_cast<int8_t*>(to.values.data), to.scale, encoding.held, from.elements(),
                   encoding.lowest(), encoding.qmax, encoding.range},
                  blocks_for(from.elements(), block_elements));
      },
      [&](const QuantizeItems& items) {
        ClipRange* const ranges = ranges_.get<ClipRange>(QuantizeItems::most);
        fill_zero(ranges, QuantizeItems::most * sizeof *ranges, stream_);
        OCTET_LAUNCH(largest_of_items, dim3(items.blocks), dim3(threads), stream_, items, ranges);
        OCTET_LAUNCH(ranges_of_items, dim3(1), dim3(QuantizeItems::most), stream_, items, ranges);
        OCTET_LAUNCH(codes_of_items, dim3(items.blocks), dim3(threads), stream_, items, ranges);
      });
  transpose_all(calls);
}

}  // namespace octet::cuda
