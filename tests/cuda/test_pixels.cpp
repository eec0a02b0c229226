// The first layer on images of bytes: the CPU's bits.
#include <limits>

#include "kernels/cuda/backend.h"
#include "tests/cuda/compare.h"
#include "tests/kernels/pixel_cases.h"

namespace octet {
namespace {
using namespace test;

// groups: of the problem's images, which have moments of their own.
void expect_same_first_layer(const ConvProblem& p, const PixelOperands& o, DType type, bool add, int64_t groups = 1,
                             Backend* backend = nullptr) {
  const OwnedTensor dw0 = random_real(p.weight(), 5);
  const auto run = [&](Place& place) {
    const Tensor x = place.copy(o.x.view()), w = place.copy(o.w.view()), dy = place.copy(o.dy.view());
    const Tensor y = place.zeros(p.y, type), dw = add ? place.copy(dw0.view()) : place.zeros(p.weight());
    const Tensor alone = place.zeros(p.y, type), values = place.zeros(p.x);
    ConvProblem of_group = p;
    of_group.x.n = of_group.y.n = p.x.n / groups;
    std::vector<Moments> moments;
    for (int64_t group = 0; group < groups; ++group) moments.push_back(place.moments(p.y.c));
    place.backend.pixel_values({photograph_pixels, x, values});
    place.backend.pixel_forward({of_group, photograph_pixels, x, w, y, moments});
    place.backend.pixel_forward({p, photograph_pixels, x, w, alone});
    place.backend.pixel_backward_weight({p, photograph_pixels, x, dy, {dw, add}});
    place.keep("values", values), place.keep("y", y), place.keep("y without moments", alone), place.keep("dw", dw);
    for (const Moments& of : moments) place.keep("moments", of, p.y.c);
  };
  backend != nullptr ? expect_same(name_of(p), run, *backend) : expect_same(name_of(p), run);
}

TEST(CudaPixels, FirstLayersEqualTheCpu) {
  bool add = false;
  for (const ConvProblem& p : first_layers()) {
    expect_same_first_layer(p, PixelOperands(p), add ? DType::bf16 : DType::f32, add);
    if (HasFailure()) return;
    add = !add;
  }
}

TEST(CudaPixels, GroupsEqualTheCpu) {
  const ConvProblem p = first_layer(6, 9, 9, 20, 3, 1, 1);
  expect_same_first_layer(p, PixelOperands(p), DType::bf16, false, 3);
}

// More gradients than are encoded at once: two images, then one.
TEST(CudaPixels, SlicesEqualTheCpu) {
  const ConvProblem p = first_layer(3, 40, 40, 32, 3, 2, 1);
  cuda::CudaBackend slicing({}, nullptr, 2 * p.y.h * p.y.w * 32 * 3);
  expect_same_first_layer(p, PixelOperands(p), DType::f32, true, 1, &slicing);
}

TEST(CudaPixels, LargestSumsEqualTheCpu) {
  const ConvProblem p = first_layer(2, 23, 23, 18, 11, 1, 0);
  const PixelOperands operands(p);
  std::fill_n(operands.x.view().u8(), operands.x.elements(), uint8_t{255});
  for (int64_t i = 0; i < operands.w.elements(); ++i) operands.w.f32()[i] = 1 / photograph_pixels.scale[i % 3];
  for (int64_t i = 0; i < operands.dy.elements(); ++i) operands.dy.f32()[i] = i % 2 == 0 ? 1.0f : -1.0f;
  expect_same_first_layer(p, operands, DType::f32, false);
}

TEST(CudaPixels, WhatIsNotFiniteStaysSo) {
  const ConvProblem p = first_layer(2, 9, 9, 20, 3, 1, 1);
  const PixelOperands operands(p);
  const int64_t weights = operands.w.elements() / p.y.c;
  operands.w.f32()[3 * weights + 5] = std::numeric_limits<float>::quiet_NaN();
  operands.w.f32()[4 * weights] = std::numeric_limits<float>::infinity();
  std::fill_n(operands.w.f32() + 5 * weights, weights, 0.0f);
  operands.dy.f32()[7] = -std::numeric_limits<float>::infinity();
  operands.dy.f32()[p.y.c + 8] = std::numeric_limits<float>::quiet_NaN();
  Place place(cuda_backend());
  const Tensor x = place.copy(operands.x.view()), y = place.zeros(p.y), dw = place.zeros(p.weight());
  place.backend.pixel_forward({p, photograph_pixels, x, place.copy(operands.w.view()), y});
  place.backend.pixel_backward_weight({p, photograph_pixels, x, place.copy(operands.dy.view()), {dw}});
  std::vector<float> of_y(static_cast<size_t>(p.y.elements())), of_dw(static_cast<size_t>(operands.w.elements()));
  place.backend.to_host(of_y.data(), y.data, y.bytes());
  place.backend.to_host(of_dw.data(), dw.data, dw.bytes());
  for (size_t i = 0; i < of_y.size(); ++i) {
    const auto channel = int64_t(i) % p.y.c;
    ASSERT_EQ(of_y[i] != of_y[i], channel == 3 || channel == 4) << i;
  }
  for (size_t i = 0; i < of_dw.size(); ++i) {
    const auto channel = int64_t(i) / weights;
    ASSERT_EQ(of_dw[i] != of_dw[i], channel == 7 || channel == 8) << i;
  }
}

}  // namespace
}  // namespace octet
