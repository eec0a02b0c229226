// The real libnccl on one GPU, which is one rank: every collective, launched and recorded, and an end while a program
// that holds NCCL's kernels is playing. GPU_NO_NCCL=1: it is not a failure that the library is missing.
#include <cstdlib>

#include "comm/nccl.h"
#include "tests/cuda/exchange_cases.h"

namespace octet::test {
namespace {

constexpr double timeout = 30;  // seconds

std::unique_ptr<DeviceCollectives> nccl_of(Transport& transport, Backend& backend, SideStream& stream) {
  return make_nccl_collectives(transport, stream.handle(), timeout, [&backend] { backend.forget_programs(); });
}

class DeviceNccl : public testing::Test {
 protected:
  void SetUp() override {
    const std::string obstacle = nccl_obstacle();
    if (obstacle.empty()) return;
    if (std::getenv("GPU_NO_NCCL") == nullptr) FAIL() << obstacle;
    GTEST_SKIP() << obstacle;
  }
};

TEST_F(DeviceNccl, LaunchedSumsAreTheHosts) { expect_the_hosts_sums(nccl_of, false, {1}); }
TEST_F(DeviceNccl, RecordedSumsAreTheHosts) { expect_the_hosts_sums(nccl_of, true, {1}); }

TEST_F(DeviceNccl, EndsWhileAProgramPlays) {
  on_threads(1, [](Transport& transport) {
    const std::unique_ptr<Backend> backend = make_cuda_backend({});
    const std::vector<float> ones(size_t{16} << 20, 1.0f);
    const std::unique_ptr<Buffer> buffer = backend->allocate(ones.size() * sizeof(float));
    const std::span values(static_cast<float*>(buffer->data()), ones.size());
    backend->to_device(values.data(), ones.data(), values.size_bytes());
    const std::unique_ptr<SideStream> stream = backend->make_side_stream();
    std::unique_ptr<DeviceCollectives> nccl = nccl_of(transport, *backend, *stream);
    for (uint32_t step = 0; step < 3; ++step)
      backend->run(0, {.step = step}, [&] {
        stream->follow();
        nccl->all_reduce_sum(values);
        stream->join();
      });
    nccl.reset();
    std::vector<float> sums(ones.size());
    backend->to_host(sums.data(), values.data(), values.size_bytes());
    EXPECT_TRUE(sums == ones);  // those of one rank
  });
}

}  // namespace
}  // namespace octet::test
