// Files of integer networks: what is read back is what was written, and computes the same logits.
#include "src/deploy/onnx.h"
#include "tests/deploy/trained.h"

namespace octet {
namespace {

class OnnxFiles : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Networks, OnnxFiles,
                         testing::Values(Case{"resnet20", 32}, Case{"mobilenet_v2", 32}, Case{"efficientnet_lite0", 32},
                                         Case{"alexnet", 32, true}, Case{"resnet18", 32, true},
                                         Case{"inception_v3", 32}),
                         name_of_case);

std::vector<float> logits_of(Harness& harness, const IntegerNetwork& network, std::unique_ptr<Backend> backend) {
  return integer_step(harness, layers_of(network), std::move(backend),
                      [&](const Policy& policy, bool, int) { return graph_of(network, policy); })
      ->evaluate(harness.batch_of(0), true)
      .logits;
}

TEST_P(OnnxFiles, HoldTheNetwork) {
  const Case& c = GetParam();
  Harness harness = trained(c, 2);
  const IntegerLayers layers = folded(harness);
  const auto cpu = [] { return make_cpu_backend({.isa = best_isa(), .threads = 2}); };
  const IntegerNetwork network = network_of(harness, layers, c.size);
  const std::vector<float> expected = integer_logits(harness, layers, cpu(), c.size);
  EXPECT_TRUE(logits_of(harness, network, cpu()) == expected);
  const std::map<std::string, std::string> metadata = {{"classes", "[\"a\", \"b\"]"}};
  const std::pair<IntegerNetwork, OnnxForm> forms[] = {{with_file_codes(network), OnnxForm::unsigned_codes},
                                                       {with_separate_sums(network), OnnxForm::unsigned_codes},
                                                       {with_signed_codes(network), OnnxForm::signed_codes}};
  for (const auto& [of, form] : forms) {
    const NetworkFile back = read_onnx(write_onnx({of, metadata}, form), "a file");
    EXPECT_EQ(difference(of, back.network), "") << int(form);
    EXPECT_EQ(back.metadata, metadata);
    const std::vector<float> own = logits_of(harness, back.network, cpu());
    EXPECT_LT(relative_square(own, expected), 0.05) << int(form);
  }
}

// Biases of the reals are rounded to 24 bits, and weights are exact.
TEST_P(OnnxFiles, HoldTheWeightsAsReals) {
  const Case& c = GetParam();
  Harness harness = trained(c, 2);
  const IntegerNetwork network = network_of(harness, folded(harness), c.size);
  const NetworkFile back = read_onnx(write_onnx({network, {}}, OnnxForm::reals), "a file");
  ASSERT_TRUE(back.network.tensors == network.tensors);
  ASSERT_EQ(back.network.operations.size(), network.operations.size());
  for (size_t i = 0; i < network.operations.size(); ++i) {
    const IntegerLayer &read = back.network.operations[i].layer, &layer = network.operations[i].layer;
    EXPECT_TRUE(read.weights == layer.weights && read.factor == layer.factor) << network.operations[i].name;
    for (size_t channel = 0; channel < layer.bias.size(); ++channel)
      EXPECT_NEAR(read.bias[channel], layer.bias[channel], 1 + std::abs(layer.bias[channel]) * 0x1p-23);
  }
}

TEST(OnnxFile, RefusesWhatOctetDidNotWrite) {
  const auto refusal = [](const std::string& text) {
    try {
      read_onnx(text, "model.onnx");
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(refusal("no protobuf").find("model.onnx is no ONNX file"), std::string::npos);
  EXPECT_NE(refusal("").find("one input"), std::string::npos);
  Harness harness = trained({"resnet20", 32}, 2);
  const std::string whole = write_onnx({network_of(harness, folded(harness), 32), {}}, OnnxForm::unsigned_codes);
  std::string other = whole;
  for (size_t at = 0; (at = other.find("GlobalAveragePool", at)) != std::string::npos; ++at)
    other.replace(at, 17, "GlobalLpPoolPools");
  EXPECT_NE(refusal(other).find("does not know: GlobalLpPoolPools"), std::string::npos);
}

}  // namespace
}  // namespace octet
