// Convolutions that write codes, on the GPU and on the CPU.
#include <cmath>

#include "tests/cuda/compare.h"
#include "tests/kernels/random_problems.h"

namespace octet {
namespace {
using namespace test;

TEST(CudaRequantize, EqualsTheCpu) {
  int index = 0;
  for (const ConvCase& c : random_conv_cases(12)) {
    const ConvProblem& p = c.problem;
    Draw draw(22, index++);
    const DType type = draw.one_of({DType::s8, DType::u8, DType::f32});
    const bool adds = type != DType::f32 && draw.coin(), is_unsigned = draw.coin();
    const auto channels = static_cast<size_t>(p.y.c);
    std::vector<int32_t> bias;
    std::vector<double> factor, residual_factor;
    for (size_t i = 0; i < channels; ++i) {
      bias.push_back(static_cast<int32_t>(draw.between(-20000, 20000)));
      factor.push_back(std::ldexp(static_cast<double>(draw.between(1 << 21, (1 << 22) - 1)), -32));
      residual_factor.push_back(std::ldexp(static_cast<double>(draw.between(0, 1 << 22)), -22));
    }
    const OwnedQTensor x = is_unsigned ? random_unsigned_codes(p.x, 1) : random_codes(p.x, 1);
    const OwnedQTensor w = random_codes(p.weight(), 2), residual = random_codes(p.y, 3);
    expect_same(c.name, [&](Place& place) {
      const Requantization how{place.copy(bias.data(), channels), place.copy(factor.data(), channels),
                               adds ? place.copy(residual_factor.data(), channels) : nullptr,
                               type == DType::u8 ? 0 : -127, type == DType::u8 ? 200 : 127};
      const Tensor y = place.zeros(p.y, type);
      place.backend.conv_requantize({p, place.copy(x.view().values), place.copy(w.view().values),
                                     adds ? place.copy(residual.view().values) : Tensor{}, how, y});
      place.keep("y", y);
    });
  }
}

}  // namespace
}  // namespace octet
