// Nothing but kernels and copies may follow a pointer to the device: its memory is closed to the host here, so that
// what would be a crash on a GPU is one in this test.
#include <gtest/gtest.h>

#include "comm/transport.h"
#include "src/train/trainer.h"
#include "tests/cuda_emulation/device_memory.h"

namespace octet {
namespace {

TEST(CudaHostAccess, TrainingEvaluationAndCheckpointsStayOutOfDeviceMemory) {
  const Config config = parse_config("data: {name: synthetic, samples: 16, workers: 1, image_size: 8, batch: 2}\n",
                                     "test.yaml", {"backend.device=cuda", "model.name=resnet20"});
  const auto transport = make_self_transport();
  Trainer trainer(config, *transport);
  cuda::protect_device_memory(true);
  trainer.start(0);
  for (int64_t step = 0; step < 2; ++step) EXPECT_FALSE(trainer.step(step, false).skipped);
  const std::string weights = trainer.state().weights_sha256();
  trainer.evaluate();
  trainer.state().broadcast(*transport);
  EXPECT_EQ(trainer.state().weights_sha256(), weights);
  cuda::protect_device_memory(false);
}

TEST(CudaHostAccess, HostWorkSeesMemoryOfTheHost) {
  const auto backend = make_cuda_backend({});
  const auto buffer = backend->allocate(64);
  const Tensor tensor[] = {{buffer->data(), {1, 1, 1, 16}}};
  cuda::protect_device_memory(true);
  for (int step = 0; step < 3; ++step)  // as it is, recorded, repeated
    backend->run(1, {}, [&] {
      backend->on_host(tensor, tensor, [](auto reads, auto writes, const StepState&) {
        for (int64_t i = 0; i < 16; ++i) writes[0].f32()[i] = reads[0].f32()[i] + 1;
      });
    });
  std::vector<float> result(16);
  backend->to_host(result.data(), buffer->data(), 64);
  cuda::protect_device_memory(false);
  EXPECT_EQ(result, std::vector<float>(16, 3));
}

// The emulated device has 1 GiB.
TEST(CudaMemory, IsKnownToBeTooSmallBeforeTheFirstStep) {
  const Config config = parse_config("data: {name: synthetic, samples: 64, image_size: 224, batch: 64}\n", "test.yaml",
                                     {"backend.device=cuda", "model.name=resnet50"});
  const auto transport = make_self_transport();
  try {
    const Trainer trainer(config, *transport);
    ADD_FAILURE() << "a plan of several GB fits into 1 GiB";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("GB too little"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("set data.batch to at most"), std::string::npos) << error.what();
  }
}

TEST(CudaHostAccessDeathTest, ClosedMemoryFaults) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto follow = [] {
    const auto backend = make_cuda_backend({});
    const auto buffer = backend->allocate(64);
    cuda::protect_device_memory(true);
    static_cast<volatile char*>(buffer->data())[0] = 1;
  };
  EXPECT_DEATH(follow(), "");
}

}  // namespace
}  // namespace octet
