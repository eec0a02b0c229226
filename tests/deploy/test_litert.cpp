// Files for LiteRT: what is read back is what was written. tests/peers/litert.py runs such files.
#include <numeric>

#include "src/deploy/litert.h"
#include "src/deploy/litert_generated.h"
#include "tests/deploy/trained.h"

namespace octet {
namespace {

class LitertFiles : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Networks, LitertFiles,
                         testing::Values(Case{"resnet20", 32}, Case{"mobilenet_v2", 32}, Case{"efficientnet_lite0", 32},
                                         Case{"alexnet", 32, true}, Case{"resnet18", 32, true},
                                         Case{"inception_v3", 32}),
                         name_of_case);

TEST_P(LitertFiles, HoldTheNetwork) {
  const Case& c = GetParam();
  Harness harness = trained(c, 2, 1);
  const IntegerNetwork network = with_separate_sums(network_of(harness, folded(harness), c.size));
  const std::map<std::string, std::string> metadata = {{"classes", "[\"a\", \"b\"]"}, {"commit", "0123"}};
  const NetworkFile back = read_litert(write_litert({network, metadata}), "a file");
  EXPECT_EQ(difference(network, back.network), "");
  EXPECT_EQ(back.metadata, metadata);
}

std::string refusal(const std::string& content) {
  try {
    read_litert(content, "model.tflite");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

IntegerNetwork small_network() {
  Harness harness = trained({"resnet20", 32}, 2, 1);
  return with_separate_sums(network_of(harness, folded(harness), 32));
}

// The numbers that LiteRT reads, without the reader.
TEST(LitertFile, HasCodesWithASign) {
  const IntegerNetwork network = small_network();
  const std::string content = write_litert({network, {}});
  litert::ModelT model;
  litert::GetModel(content.data())->UnPackTo(&model);
  const litert::GraphT& graph = *model.graphs.at(0);
  const auto tensor = [&](const std::string& name) -> const litert::TensorT& {
    return **std::ranges::find_if(graph.tensors, [&](const auto& of) { return of->name == name; });
  };
  const auto integers = [&](const litert::TensorT& of) {
    const auto& bytes = model.buffers.at(of.buffer)->data;
    const auto* const first = reinterpret_cast<const int32_t*>(bytes.data());
    return std::vector<int32_t>(first, first + bytes.size() / sizeof(int32_t));
  };
  EXPECT_EQ(tensor("images").type, litert::ElementType::UINT8);
  EXPECT_EQ(tensor("images").shape, (std::vector<int32_t>{1, 32, 32, 3}));
  EXPECT_EQ(tensor("images").shape_signature, (std::vector<int32_t>{-1, 32, 32, 3}));
  EXPECT_EQ(tensor("logits").type, litert::ElementType::FLOAT32);
  for (const IntegerOperation& operation : network.operations) {
    if (operation.kind == IntegerOperation::Kind::linear) continue;
    const IntegerTensor& of = network.tensors[size_t(operation.output)];
    const litert::TensorT& written = tensor(operation.name);
    EXPECT_EQ(written.type, litert::ElementType::INT8) << operation.name;
    EXPECT_EQ(written.quantization->zero_point, std::vector<int64_t>{of.type == DType::u8 ? -128 : 0});
    EXPECT_EQ(written.quantization->scale, std::vector<float>{of.scale});
  }
  const IntegerOperation &first = network.operations.front(), &last = network.operations.back();
  EXPECT_EQ(integers(tensor(first.name + ".bias")), first.layer.bias);
  EXPECT_EQ(tensor(first.name + ".weight").quantization->scale, first.layer.weight_scale);
  // A code of 0 is -128 there, and a product of matrices knows no zero points.
  ASSERT_EQ(network.tensors[size_t(last.inputs[0])].type, DType::u8);
  const std::vector<int32_t> bias = integers(tensor(last.name + ".bias"));
  for (size_t i = 0; i < bias.size(); ++i) {
    const auto row = last.layer.weights.begin() + ptrdiff_t(i) * 64;
    EXPECT_EQ(bias[i] - last.layer.bias[i], 128 * std::accumulate(row, row + 64, 0)) << i;
  }
}

TEST(LitertFile, RefusesWhatOctetDidNotWrite) {
  EXPECT_NE(refusal("").find("model.tflite is no LiteRT file"), std::string::npos);
  EXPECT_NE(refusal("no flatbuffer, but long enough").find("is no LiteRT file"), std::string::npos);
  const std::string whole = write_litert({small_network(), {}});
  EXPECT_EQ(whole.substr(4, 4), "TFL3");
  EXPECT_NE(refusal(whole.substr(0, whole.size() / 2)).find("is no LiteRT file"), std::string::npos);
}

// A damaged file is refused, or a network of sound sizes.
TEST(LitertFile, DamageIsNoCrash) {
  const std::string whole = write_litert({small_network(), {}});
  int refused = 0;
  for (size_t at = 0; at < whole.size(); at += 1 + at / 64) {
    std::string damaged = whole;
    damaged[at] = char(damaged[at] ^ 0x55);
    refused += refusal(damaged) != "no error";
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace octet
