// Memory, quantization and the finiteness check.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "kernels/reference/element.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/shared/checks.h"

namespace octet {
namespace {
using namespace reference;

class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(size_t bytes) : bytes_(bytes) {
    constexpr size_t huge_page = size_t{2} << 20, line = 64;
    const size_t alignment = bytes >= huge_page ? huge_page : line;
    const size_t rounded = (std::max(bytes, line) + alignment - 1) / alignment * alignment;
    data_ = std::aligned_alloc(alignment, rounded);
    if (data_ == nullptr) throw std::bad_alloc();
    if (alignment == huge_page) madvise(data_, rounded, MADV_HUGEPAGE);  // only a hint: it may be refused
    memset(data_, 0, rounded);
  }
  ~HostBuffer() override { std::free(data_); }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  void* data() override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  size_t bytes_;
  void* data_;
};
}  // namespace

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

std::unique_ptr<Buffer> ReferenceBackend::allocate(size_t bytes) { return std::make_unique<HostBuffer>(bytes); }

void ReferenceBackend::quantize(Tensor src, const Encoding& encoding, const RngKey& key, QTensor dst, Probe probe) {
  check_quantize(src, encoding, dst, probe);
  if (!encoding.quantized()) {
    for (int64_t i = 0; i < src.elements(); ++i) {
      const float x = read(src, i);
      count_histogram(probe, i, x);
      write(dst.values, i, x);
    }
    return;
  }
  const int64_t blocks = encoding.per_channel ? src.shape.n : 1;  // one scale each
  const int64_t count = src.elements() / blocks;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t first = block * count;
    const float clip =
        clip_of(encoding, [&] { return absmax_of(count, [&](int64_t i) { return read(src, first + i); }); });
    const Encoder encode(encoding, key, clip);
    dst.scale[block] = encode.scale();
    for (int64_t i = first; i < first + count; ++i) {
      const float x = read(src, i);
      count_histogram(probe, i, x);
      count_saturated(probe, x, clip);
      write_code(dst.values, i, encode(x, i));
    }
  }
}

void ReferenceBackend::dequantize(QTensor src, Tensor dst) {
  REQUIRE(src.values.shape == dst.shape, "give a destination of the source's shape", "dequantize() between two shapes");
  const int64_t block = src.per_channel ? dst.elements() / dst.shape.n : dst.elements();
  for (int64_t i = 0; i < dst.elements(); ++i) {
    const float x = read(src.values, i);
    write(dst, i, src.real() ? x : x * src.scale[i / block]);
  }
}

void ReferenceBackend::find_nonfinite(Tensor tensor, int32_t* found) {
  *found = 0;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    if (!std::isfinite(read(tensor, i))) *found = 1;
  }
}

}  // namespace octet
