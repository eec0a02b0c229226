// Memory.
#include "kernels/reference/backend.h"

#include <cstddef>
#include <vector>

namespace octet {
namespace {

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

}  // namespace octet
