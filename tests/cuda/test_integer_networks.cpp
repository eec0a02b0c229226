// Integer networks on the GPU: the logits of the plain loops, bit by bit.
#include "tests/deploy/trained.h"

namespace octet {
namespace {

class CudaIntegerNetwork : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Networks, CudaIntegerNetwork,
                         testing::Values(Case{"resnet20", 32}, Case{"mobilenet_v2", 32}, Case{"efficientnet_lite0", 32},
                                         Case{"alexnet", 64, true}, Case{"resnet18", 32}, Case{"inception_v3", 32}),
                         name_of_case);

TEST_P(CudaIntegerNetwork, SaysWhatThePlainLoopsSay) {
  const Case& c = GetParam();
  Harness harness = trained(c, 2, 4);
  const IntegerLayers layers = folded(harness);
  const std::vector<float> plain = integer_logits(harness, layers, make_reference_backend(), c.size);
  EXPECT_EQ(integer_logits(harness, layers, make_cuda_backend({}), c.size), plain);
}

}  // namespace
}  // namespace octet
