// Networks in C: compiled without a warning, they say what octet's own kernels say.
#include "tests/deploy/c_program.h"

namespace octet {
namespace {

class CFiles : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Networks, CFiles,
                         testing::Values(Case{"resnet20", 32}, Case{"mobilenet_v2", 96}, Case{"efficientnet_lite0", 32},
                                         Case{"alexnet", 32, true}, Case{"resnet18", 32, true}, Case{"vgg7", 32},
                                         Case{"inception_v3", 32}),
                         name_of_case);

void expect_same(const Case& c, int64_t images, const CTarget& target) {
  Harness harness = trained(c, images, 2);
  const std::vector<uint8_t> bytes = random_bytes(harness.images.size());
  set_images(harness, bytes);
  const IntegerLayers layers = folded(harness);
  const IntegerNetwork network = network_of(harness, layers, c.size);
  const std::vector<float> real =
      integer_logits(harness, layers, make_cpu_backend({.isa = best_isa(), .threads = 2}), c.size);
  const CProgram program(network, target);
  program.expect_no_floats();
  EXPECT_EQ(program.logits(bytes), integer_logits_of(network, real));
}

TEST_P(CFiles, SayWhatTheNetworkSays) { expect_same(GetParam(), 3, this_machine); }
TEST_P(CFiles, SaysTheSameOf200Images) { expect_same(GetParam(), 200, this_machine); }

// A microcontroller's program, emulated. Its compiler has floating point in calls, which a symbol would name.
class CFilesOnArm : public CFiles {};
INSTANTIATE_TEST_SUITE_P(Networks, CFilesOnArm, testing::Values(Case{"resnet20", 32}, Case{"mobilenet_v2", 96}),
                         name_of_case);
constexpr CTarget cortex_m7 = {
    "arm-none-eabi-",
    "arm-none-eabi-gcc -std=c11 -Wall -Wextra -Werror -O2 -mcpu=cortex-m7 -mthumb --specs=rdimon.specs "
    "-T " OCTET_SOURCE_DIR "/tests/deploy/cortex_m7.ld",
    "qemu-system-arm -M mps2-an500 -display none -monitor none -serial none -semihosting-config "
    "enable=on,target=native -kernel"};

bool lacks_arm() {
  return std::system("arm-none-eabi-gcc --version > /dev/null 2>&1 && qemu-system-arm --version > /dev/null 2>&1") != 0;
}
constexpr const char* without_arm =
    "arm-none-eabi-gcc or qemu-system-arm is missing; launch/setup.sh --arm installs them";

TEST_P(CFilesOnArm, SaysTheSameOf200Images) {
  if (lacks_arm()) GTEST_SKIP() << without_arm;
  expect_same(GetParam(), 200, cortex_m7);
}

// Layers that the networks above lack, and codes of all signs: each of a random layer.
class Odd {
 public:
  Odd() {
    network_.pixels = of_photographs;
    network_.input_range = 2.6f;
    network_.tensors = {{{1, 13, 10, 3}, DType::s8, 2.6f / 127}};
  }
  int convolve(int x, int64_t out, ConvProblem p, DType type, float scale, int shortcut = -1) {
    IntegerOperation operation;
    p.x = tensor(x).shape;
    p.y = {1, output_extent(p.x.h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h),
           output_extent(p.x.w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w), out};
    operation.conv = p;
    operation.inputs = {x};
    if (shortcut >= 0) operation.inputs.push_back(shortcut);
    if (type == DType::f32) operation.kind = IntegerOperation::Kind::linear;
    for (int64_t i = 0; i < p.weight().elements(); ++i)
      operation.layer.weights.push_back(int8_t(int(random() % 255) - 127));
    for (int64_t c = 0; c < out; ++c) {
      operation.layer.bias.push_back(int32_t(random() % 2001) - 1000);
      operation.layer.weight_scale.push_back(float(random() % 1000 + 1) * 1e-5f);
    }
    return append(std::move(operation), type, scale);
  }
  int pool(int x, PoolProblem p) {
    IntegerOperation operation;
    operation.kind = IntegerOperation::Kind::pool;
    p.x = tensor(x).shape;
    p.y = pooled_shape(p);
    operation.pool = p;
    operation.inputs = {x};
    return append(std::move(operation), tensor(x).type, tensor(x).scale);
  }
  int join(const std::vector<int>& parts, float scale) {
    IntegerOperation operation;
    operation.kind = IntegerOperation::Kind::concat;
    operation.inputs = parts;
    return append(std::move(operation), tensor(parts[0]).type, scale);
  }
  int mean(int x, float scale) {
    IntegerOperation operation;
    operation.kind = IntegerOperation::Kind::mean;
    const Shape of = tensor(x).shape;
    operation.conv = channelwise(of, {1, 1, 1, of.c}, int(of.h), int(of.w));
    operation.inputs = {x};
    return append(std::move(operation), DType::s8, scale);
  }
  const IntegerNetwork& network() const { return network_; }

 private:
  const IntegerTensor& tensor(int i) const { return network_.tensors[size_t(i)]; }
  uint32_t random() { return philox(++drawn_, 11, 0, 0).word[0]; }
  int append(IntegerOperation operation, DType type, float scale) {
    operation.name = say("layer", network_.operations.size(), " */ of");
    append_operation(network_, std::move(operation), type, scale);
    return network_.operations.back().output;
  }
  IntegerNetwork network_;
  uint32_t drawn_ = 0;
};

IntegerNetwork odd_network() {
  Odd odd;
  const int a =
      odd.convolve(0, 8, {.x = {}, .y = {}, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1}, DType::s8, 0.05f);
  const int grouped = odd.convolve(a, 12,
                                   {.x = {},
                                    .y = {},
                                    .kernel_h = 3,
                                    .kernel_w = 2,
                                    .pad_h = 2,
                                    .pad_w = 1,
                                    .dilation_h = 2,
                                    .dilation_w = 2,
                                    .groups = 4},
                                   DType::s8, 0.04f);
  const int alone = odd.convolve(
      a, 8, {.x = {}, .y = {}, .kernel_h = 5, .kernel_w = 3, .pad_h = 2, .pad_w = 1, .groups = 8}, DType::s8, 0.03f, a);
  const int strided = odd.convolve(
      grouped, 8, {.x = {}, .y = {}, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .pad_w = 1}, DType::u8, 0.02f);
  const int averages = odd.pool(alone, {.kernel = 3, .stride = 1, .pad = 1, .kind = PoolKind::average});
  const int counted =
      odd.pool(averages, {.kernel = 3, .stride = 2, .pad = 1, .kind = PoolKind::average, .count_padding = true});
  const int largest = odd.pool(alone, {.kernel = 3, .stride = 2, .pad = 1});
  const int rectified = odd.pool(largest, {.kernel = 1, .stride = 1, .rectify = true});
  const int joined = odd.join({counted, largest, rectified}, 0.03f);
  const int summed = odd.convolve(joined, 24, {.x = {}, .y = {}, .groups = 2}, DType::s8, 0.5f, joined);
  const int unsigned_sum = odd.convolve(
      strided, 8, {.x = {}, .y = {}, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1}, DType::u8, 0.3f, strided);
  odd.convolve(unsigned_sum, 4, {}, DType::s8, 0.3f);  // that nothing reads
  const int means = odd.mean(summed, 0.2f);
  odd.convolve(means, 5, {}, DType::f32, 1);
  return odd.network();
}

std::vector<float> logits_of(const IntegerNetwork& network, const std::vector<uint8_t>& bytes) {
  Config config = config_of({"resnet20", 32});
  const Shape& of = network.tensors[0].shape;
  const int64_t count = int64_t(bytes.size()) / of.elements();
  std::vector<float> images;
  for (size_t i = 0; i < bytes.size(); ++i)
    images.push_back(float(bytes[i]) * network.pixels.scale(int64_t(i % 3)) + network.pixels.shift(int64_t(i % 3)));
  const std::vector<int32_t> labels(static_cast<size_t>(count));
  const auto transport = make_self_transport();
  TrainingStep step(
      config, *transport, std::make_unique<IntegerPolicy>(layers_of(network)), make_reference_backend(),
      [&](const Policy& policy, bool, int) { return graph_of(network, policy); },
      TrainingStep::Options{.plan = {}, .batch = count, .threads = 2, .training = false});
  step.begin_evaluation();
  return step.evaluate({.images = images.data(), .targets = {labels.data()}, .count = count}, true).logits;
}

TEST(CFile, HasLayersOfAllForms) {
  const IntegerNetwork network = odd_network();
  const std::vector<uint8_t> bytes = random_bytes(size_t(20 * network.tensors[0].shape.elements()));
  const std::vector<int64_t> expected = integer_logits_of(network, logits_of(network, bytes));
  EXPECT_EQ(CProgram(network, this_machine).logits(bytes), expected);
  if (lacks_arm()) GTEST_SKIP() << "on this processor alone: " << without_arm;
  const CProgram program(network, cortex_m7);
  program.expect_no_floats();
  EXPECT_EQ(program.logits(bytes), expected);
}

}  // namespace
}  // namespace octet
