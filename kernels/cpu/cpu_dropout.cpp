// Dropout: the reference's decisions, from the random bits of many elements at once.
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/encode_tensor.h"
#include "kernels/reference/element.h"
#include "kernels/shared/checks.h"

namespace octet::cpu {
namespace {

// work(element, kept) for every element.
template <class Work>
void for_each_kept(const Passes& passes, int threads, float rate, const RngKey& key, int64_t count, const Work& work) {
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

void CpuBackend::dropout_forward(QTensor x, float rate, const RngKey& key, QTensor y) {
  check_dropout_forward(x, rate, y);
  const float growth = 1 / (1 - rate);
  if (!x.real()) *y.scale = *x.scale * growth;
  if (rate == 0) {  // as in every evaluation
    std::memcpy(y.values.data, x.values.data, x.values.bytes());
  } else if (x.real()) {
    for_each_kept(passes_, options_.threads, rate, key, x.values.elements(), [&](int64_t i, bool kept) {
      reference::write(y.values, i, kept ? reference::read(x.values, i) * growth : 0);
    });
  } else {
    for_each_kept(passes_, options_.threads, rate, key, x.values.elements(),
                  [&, from = x.values.s8(), to = y.values.s8()](int64_t i, bool kept) { to[i] = kept ? from[i] : 0; });
  }
}

void CpuBackend::dropout_backward(Tensor dy, float rate, const RngKey& key, Into dx) {
  check_dropout(dx.tensor.shape, dy.shape, rate);
  const float growth = 1 / (1 - rate);
  for_each_kept(passes_, options_.threads, rate, key, dy.elements(),
                [&](int64_t i, bool kept) { reference::write(dx, i, kept ? reference::read(dy, i) * growth : 0); });
}

}  // namespace octet::cpu
