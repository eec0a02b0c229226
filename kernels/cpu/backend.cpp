#include "kernels/cpu/backend.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/parallel.h"

namespace octet {
namespace cpu {
namespace {
class HostBuffer final : public Buffer {
 public:
  HostBuffer(size_t bytes, const Threads& threads) : bytes_(bytes) {
    constexpr size_t huge_page = size_t{2} << 20, line = 64;
    const size_t alignment = bytes >= huge_page ? huge_page : line;
    const size_t rounded = (std::max(bytes, line) + alignment - 1) / alignment * alignment;
    data_ = std::aligned_alloc(alignment, rounded);
    if (data_ == nullptr) throw std::bad_alloc();
    if (alignment == huge_page) madvise(data_, rounded, MADV_HUGEPAGE);  // only a hint: it may be refused
    parallel_pieces(threads, static_cast<int64_t>(rounded), huge_page, [&](int64_t first, int64_t count) {
      memset(static_cast<char*>(data_) + first, 0, static_cast<size_t>(count));
    });
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

CpuBackend::CpuBackend(const CpuOptions& options, std::unique_ptr<Convolution> int8)
    : options_(options),
      threads_{options.threads, &loops_},
      passes_(*kernels_of(options.isa).passes),
      codes_(std::move(int8)),
      packed_(static_cast<size_t>(std::max(options.threads, 1))) {
  REQUIRE(options.threads > 0, "use at least one thread", "a CPU backend of ", options.threads, " threads");
  if (codes_ == nullptr) codes_ = make_int8_convolution(options.isa, threads_);
  switch (options.real) {
    case RealConvolution::fixed_order:
      real_ = make_fixed_order_convolution(options.isa, threads_);
      break;
    case RealConvolution::library:
      real_ = make_onednn_convolution(threads_);
      break;
    case RealConvolution::chunked_float16:
      real_ = make_chunked_convolution(options.isa, threads_);
      break;
  }
}

std::unique_ptr<Buffer> CpuBackend::allocate(size_t bytes) { return std::make_unique<HostBuffer>(bytes, threads_); }

size_t CpuBackend::scratch_bytes() const {
  size_t bytes = coefficients_.bytes() + sums_.bytes() + codes_->scratch_bytes() + real_->scratch_bytes();
  for (const Scratch& scratch : packed_) bytes += scratch.bytes();
  return bytes;
}

}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  return std::make_unique<cpu::CpuBackend>(options);
}

}  // namespace octet
