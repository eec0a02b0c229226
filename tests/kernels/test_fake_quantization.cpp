// The int8 convolution is exactly the convolution of the numbers that its codes stand for ("fake quantization"), up to
// the rounding of the float result: an int8 node equals the fake-quantized real node.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/backend.h"

namespace octet {
namespace {

struct Codes {
  std::vector<int8_t> values;
  std::vector<float> real;
  float scale;
  Shape shape;
  Codes(Shape s, float scale_, uint32_t layer_id) : scale(scale_), shape(s) {
    for (int64_t i = 0; i < s.elements(); ++i) {
      values.push_back(int8_t(int(philox(uint64_t(i), 1, layer_id, 5).word[0] % 255) - 127));
      real.push_back(float(values.back()) * scale);
    }
  }
  QTensor coded() { return {{values.data(), shape, DType::s8}, &scale}; }
  QTensor decoded() { return {{real.data(), shape, DType::f32}}; }
};

double relative(const std::vector<float>& got, const std::vector<float>& want) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    difference += std::pow(double(got[i]) - want[i], 2);
    norm += std::pow(double(want[i]), 2);
  }
  return std::sqrt(difference / norm);
}

TEST(FakeQuantization, Int8ConvolutionEqualsTheRealOneOfItsDequantizedOperands) {
  struct Case {
    int64_t n, size, in, out;
    int kernel, stride, groups;
  };
  const auto reference = make_reference_backend();
  const auto cpu = make_cpu_backend({best_isa(), 2, RealConvolution::fixed_order});
  for (const Case& c : {Case{2, 9, 16, 32, 3, 1, 1}, Case{2, 8, 17, 33, 3, 2, 1}, Case{3, 7, 24, 24, 3, 1, 24},
                        Case{5, 1, 64, 10, 1, 1, 1}, Case{1, 12, 32, 16, 1, 2, 1}}) {
    ConvProblem p;
    p.x = {c.n, c.size, c.size, c.in};
    const int64_t size = output_extent(c.size, c.kernel, c.stride, c.kernel / 2);
    p.y = {c.n, size, size, c.out};
    p.kernel_h = p.kernel_w = c.kernel;
    p.stride_h = p.stride_w = c.stride;
    p.pad_h = p.pad_w = c.kernel / 2;
    p.groups = c.groups;
    Codes x(p.x, 0.021f, 1), w(p.weight(), 0.0037f, 2), dy(p.y, 1.3e-5f, 3);
    std::vector<float> y(size_t(p.y.elements())), y_real = y, dx(size_t(p.x.elements())), dx_real = dx;
    std::vector<float> dw(size_t(p.weight().elements())), dw_real = dw;

    cpu->conv_forward({p, x.coded(), w.coded(), {y.data(), p.y}});
    cpu->conv_backward_data({p, dy.coded(), w.coded(), {{dx.data(), p.x}}});
    cpu->conv_backward_weight({p, x.coded(), dy.coded(), {{dw.data(), p.weight()}}});
    reference->conv_forward({p, x.decoded(), w.decoded(), {y_real.data(), p.y}});
    reference->conv_backward_data({p, dy.decoded(), w.decoded(), {{dx_real.data(), p.x}}});
    reference->conv_backward_weight({p, x.decoded(), dy.decoded(), {{dw_real.data(), p.weight()}}});
    EXPECT_LT(relative(y, y_real), 1e-6);
    EXPECT_LT(relative(dx, dx_real), 1e-6);
    EXPECT_LT(relative(dw, dw_real), 1e-6);
  }
}

}  // namespace
}  // namespace octet
