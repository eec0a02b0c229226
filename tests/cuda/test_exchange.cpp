// The exchange's kernels, between messages that the host carries: on a GPU, one serves all ranks.
#include "tests/cuda/exchange_cases.h"

namespace octet::test {
namespace {

// A transport's collectives over copies of the device's memory.
class CopyingCollectives final : public DeviceCollectives {
 public:
  CopyingCollectives(std::unique_ptr<Transport> transport, Backend& backend, SideStream& stream)
      : transport_(std::move(transport)), backend_(backend), stream_(stream) {}
  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }
  void all_reduce_sum(std::span<float> values) override {
    on_copy(values, [&](std::span<float> copy) { transport_->all_reduce_sum(copy); });
  }
  void all_reduce_sum(std::span<int64_t> values) override {
    on_copy(values, [&](std::span<int64_t> copy) { transport_->all_reduce_sum(copy); });
  }
  void all_reduce_max(std::span<float> values) override {
    on_copy(values, [&](std::span<float> copy) { transport_->all_reduce_max(copy); });
  }
  void all_to_all(std::span<const std::byte> send, std::span<std::byte> receive, size_t block_bytes) override {
    const std::vector<std::byte> sent = copy_of(send);
    on_copy(receive, [&](std::span<std::byte> copy) { transport_->all_to_all(sent, copy, block_bytes); });
  }
  void all_gather(std::span<const std::byte> send, std::span<std::byte> receive) override {
    const std::vector<std::byte> sent = copy_of(send);
    on_copy(receive, [&](std::span<std::byte> copy) { transport_->all_gather(sent, copy); });
  }
  void wait_until(const std::function<bool()>& done) override {
    while (!done()) {
    }
  }

 private:
  template <class T>
  std::vector<std::remove_const_t<T>> copy_of(std::span<T> values) {
    std::vector<std::remove_const_t<T>> copy(values.size());
    stream_.join();  // copies are the backend's
    backend_.to_host(copy.data(), values.data(), values.size_bytes());
    return copy;
  }
  template <class T, class Call>
  void on_copy(std::span<T> values, const Call& call) {
    std::vector<T> copy = copy_of(values);
    call(std::span<T>(copy));
    backend_.to_device(values.data(), copy.data(), values.size_bytes());
    stream_.follow();
    count_wire(static_cast<size_t>(transport_->wire_bytes() - wire_bytes()));
  }

  const std::unique_ptr<Transport> transport_;
  Backend& backend_;
  SideStream& stream_;
};

TEST(CudaExchange, SumsAreTheHostsBitByBit) {
  const auto make = [](Transport& transport, Backend& backend, SideStream& stream) {
    return std::make_unique<CopyingCollectives>(transport.duplicate(), backend, stream);
  };
  expect_the_hosts_sums(make, false);
}

}  // namespace
}  // namespace octet::test
