// cuDNN has a plan for every convolution that networks ask for, on GPUs that are only described here. Plans are made by
// the code that makes them on a GPU; nothing runs.
#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/convolution.h"
#include "kernels/cuda/cudnn_plan.h"
#include "tests/cudnn/devices.h"
#include "tests/graph/harness.h"

namespace octet {
namespace {

using namespace cuda;

struct Asked {
  ConvPass pass;
  ConvProblem problem;
  bool add;
};
using Questions = std::map<std::string, Asked>;  // by their descriptions

// Notes what is asked for and computes nothing.
class Recorder final : public cpu::Convolution {
 public:
  explicit Recorder(Questions& questions) : questions_(questions) {}
  void forward(const ConvForwardCall& call) override { note(ConvPass::forward, call.problem, false); }
  void backward_data(const ConvBackwardDataCall& call) override {
    note(ConvPass::backward_data, call.problem, call.dx.add);
  }
  void backward_weight(const ConvBackwardWeightCall& call) override {
    note(ConvPass::backward_weight, call.problem, call.dw.add);
  }
  size_t scratch_bytes() const override { return 0; }

 private:
  void note(ConvPass pass, const ConvProblem& p, bool add) { questions_[describe(pass, p, add)] = {pass, p, add}; }
  Questions& questions_;
};

// Every convolution of one training step, for so many images.
Questions questions_of(const std::string& model, int64_t size, int64_t batch) {
  const Config config =
      parse_config("policy: {quantize_first: true, quantize_last: true}\n", "test.yaml", {"model.name=" + model});
  Questions one, all;
  CpuOptions options;
  Harness harness(config, std::make_unique<cpu::CpuBackend>(options, std::make_unique<Recorder>(one)), 1, size, {});
  harness.train(0);
  for (auto& [name, asked] : one) {
    asked.problem.x.n = asked.problem.y.n = batch;
    all[describe(asked.pass, asked.problem, asked.add)] = asked;
  }
  return all;
}

class CudnnPlans : public testing::Test {
 protected:
  void SetUp() override {
    std::string missing;
    library_ = load_cudnn(missing);
    if (library_ == nullptr) GTEST_SKIP() << "no plans without cuDNN: " << missing;
  }
  const CudnnLibrary* library_ = nullptr;

  // Reads back what it writes, too.
  void expect_plans(const Questions& questions, size_t at_least) {
    constexpr size_t most_workspace = size_t{1} << 30;
    EXPECT_GE(questions.size(), at_least);
    for (const test::DescribedDevice& described : test::described_devices()) {
      const CudnnDescriptor device = describe_device(*library_, described.json());
      for (const auto& [name, asked] : questions) {
        const auto plan = CudnnPlan::build(device, asked.pass, asked.problem, asked.add, most_workspace);
        if (!plan) {
          ADD_FAILURE() << described.name << " has no plan for " << name;
          continue;
        }
        EXPECT_LE(plan->workspace_bytes(), most_workspace);
        EXPECT_GE(plan->engine(), 0);
        const auto loaded = CudnnPlan::load(device, plan->json());
        ASSERT_TRUE(loaded) << name;
        EXPECT_EQ(loaded->engine(), plan->engine());
        EXPECT_EQ(loaded->workspace_bytes(), plan->workspace_bytes());
      }
    }
    std::cout << questions.size() << " passes planned\n";
  }
};

TEST_F(CudnnPlans, ResNet20) { expect_plans(questions_of("resnet20", 32, 128), 20); }
TEST_F(CudnnPlans, ResNet50) { expect_plans(questions_of("resnet50", 224, 64), 60); }
TEST_F(CudnnPlans, MobileNetV2) { expect_plans(questions_of("mobilenet_v2", 224, 64), 90); }

TEST_F(CudnnPlans, WorkspaceStaysInItsBound) {
  const CudnnDescriptor device = describe_device(*library_, test::described_devices()[0].json());
  ConvProblem p;
  p.x = p.y = {64, 56, 56, 64};
  p.kernel_h = p.kernel_w = 3;
  p.pad_h = p.pad_w = 1;
  const auto free = CudnnPlan::build(device, ConvPass::forward, p, false, size_t{1} << 30);
  ASSERT_TRUE(free);
  ASSERT_GT(free->workspace_bytes(), 0u);
  const auto bound = CudnnPlan::build(device, ConvPass::forward, p, false, 0);
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->workspace_bytes(), 0u);
}

TEST_F(CudnnPlans, WhatIsNoPlanIsNotLoaded) {
  const CudnnDescriptor device = describe_device(*library_, test::described_devices()[0].json());
  EXPECT_FALSE(CudnnPlan::load(device, ""));
  EXPECT_FALSE(CudnnPlan::load(device, "{"));
  EXPECT_FALSE(CudnnPlan::load(device, "{\"engine\": 7}"));
}

TEST_F(CudnnPlans, WhatCudnnCannotDoHasNoPlan) {
  const CudnnDescriptor device = describe_device(*library_, test::described_devices()[0].json());
  ConvProblem p;
  p.x = {1, 4, 4, 8};
  p.y = {1, 2, 2, 8};  // a kernel of 1x1 gives 4x4
  EXPECT_FALSE(CudnnPlan::build(device, ConvPass::forward, p, false, 0));
}

}  // namespace
}  // namespace octet
