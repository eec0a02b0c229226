// Memory, quantization and the finiteness check.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/reference/backend.h"
#include "kernels/reference/element.h"
#include "kernels/shared/checks.h"
#include "kernels/shared/fixed_point.h"

namespace octet {
namespace {
using namespace reference;

class PlainBuffer final : public Buffer {
 public:
  explicit PlainBuffer(size_t bytes) : bytes_(bytes), lines_(bytes / sizeof(Line) + 1) {}
  void* data() override { return lines_.data(); }
  size_t bytes() const override { return bytes_; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  size_t bytes_;
  std::vector<Line> lines_;
};
}  // namespace

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

std::unique_ptr<Buffer> ReferenceBackend::allocate(size_t bytes) { return std::make_unique<PlainBuffer>(bytes); }

void ReferenceBackend::compute(const QuantizeCall& call) {
  const auto largest = [&] { return absmax_of(call.from.elements(), [&](int64_t i) { return read(call.from, i); }); };
  if (call.probe.largest != nullptr) *call.probe.largest = std::max(*call.probe.largest, largest());
  if (!call.encoding.quantized()) {
    for (int64_t i = 0; i < call.from.elements(); ++i) {
      const float x = read(call.from, i);
      count_histogram(call.probe, i, x);
      write(call.to.values, i, x);
    }
    return;
  }
  const int64_t count = call.from.elements();
  const float clip = clip_of(call.encoding, largest);
  const Encoder encode(call.encoding, call.key, clip);
  *call.to.scale = encode.scale();
  for (int64_t i = 0; i < count; ++i) {
    const float x = read(call.from, i);
    count_histogram(call.probe, i, x);
    count_saturated(call.probe, x, clip);
    write_code(call.to.values, i, encode(x, i));
  }
}

void ReferenceBackend::add_fixed(Tensor values, int64_t* sums, bool add, int32_t* beyond) {
  for (int64_t i = 0; i < values.elements(); ++i) {
    const bool fits = fits_fixed(values.f32()[i]);
    if (!fits) *beyond = 1;
    sums[i] = (add ? sums[i] : 0) + (fits ? to_fixed(values.f32()[i]) : 0);
  }
}

void ReferenceBackend::read_fixed(const int64_t* sums, Tensor values) {
  for (int64_t i = 0; i < values.elements(); ++i) values.f32()[i] = from_fixed(sums[i]);
}

void ReferenceBackend::find_nonfinite(Tensor tensor, int32_t* found) {
  *found = 0;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    if (!std::isfinite(read(tensor, i))) *found = 1;
  }
}

}  // namespace octet
