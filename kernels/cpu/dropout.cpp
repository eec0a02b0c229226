// Dropout: the reference's decisions, from the random bits of many elements at once.
#include "kernels/cpu/backend.h"
#include "kernels/cpu/encode_tensor.h"
#include "kernels/reference/element.h"

namespace octet::cpu {
namespace {

// work(element, kept) for every element.
template <class Work>
void for_each_kept(const Passes& passes, const Threads& threads, float rate, const RngKey& key, int64_t count,
                   const Work& work) {
  parallel_pieces(threads, count, piece_elements, [&](int64_t first, int64_t length) {
    RandomBits random;
    for (const int64_t end = first + length; first < end; first += block_elements) {
      const int64_t here = std::min(block_elements, end - first);
      const uint16_t* bits = random.draw(passes, key, first, here);
      for (int64_t i = 0; i < here; ++i) work(first + i, static_cast<float>(bits[i]) >= rate * 65536.0f);
    }
  });
}

}  // namespace

void CpuBackend::compute(const DropoutForwardCall& call) {
  const float growth = 1 / (1 - call.rate);
  if (!call.x.real()) *call.y.scale = *call.x.scale * growth;
  if (call.rate == 0) {  // as in every evaluation
    std::memcpy(call.y.values.data, call.x.values.data, call.x.values.bytes());
  } else if (call.x.real()) {
    for_each_kept(passes_, threads_, call.rate, call.key, call.x.values.elements(), [&](int64_t i, bool kept) {
      reference::write(call.y.values, i, kept ? reference::read(call.x.values, i) * growth : 0);
    });
  } else {
    for_each_kept(
        passes_, threads_, call.rate, call.key, call.x.values.elements(),
        [&, from = call.x.values.s8(), to = call.y.values.s8()](int64_t i, bool kept) { to[i] = kept ? from[i] : 0; });
  }
}

void CpuBackend::compute(const DropoutBackwardCall& call) {
  const float growth = 1 / (1 - call.rate);
  for_each_kept(passes_, threads_, call.rate, call.key, call.dy.elements(), [&](int64_t i, bool kept) {
    reference::write(call.dx, i, kept ? reference::read(call.dy, i) * growth : 0);
  });
}

}  // namespace octet::cpu
