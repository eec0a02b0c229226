// Every convolution of the CUDA backend against the CPU's, which is proven against plain loops: outputs, moments and
// both gradients to the last bit.
#include <algorithm>
#include <limits>

#include "kernels/cpu/contraction.h"
#include "kernels/cpu/conv_plan.h"
#include "kernels/cpu/isa.h"
#include "kernels/cuda/geometry.h"
#include "kernels/shared/sums.h"
#include "tests/cuda/compare.h"
#include "tests/kernels/random_problems.h"

namespace octet::test {
namespace {

struct Operands {
  OwnedQTensor x, w, dy;
};
Operands codes_of(const ConvProblem& p) {
  return {random_codes(p.x, 1), random_codes(p.weight(), 2), random_codes(p.y, 3)};
}
Operands unsigned_codes_of(const ConvProblem& p) {
  return {random_unsigned_codes(p.x, 1), random_codes(p.weight(), 2), random_codes(p.y, 3)};
}
Operands reals_of(const ConvProblem& p) {
  return {random_real_operand(p.x, 1), random_real_operand(p.weight(), 2), random_real_operand(p.y, 3)};
}

void expect_same_convolution(const ConvCase& c, const Operands& o, DType type, bool add) {
  const ConvProblem& p = c.problem;
  const OwnedTensor dx0 = random_real(p.x, 4, 1, type), dw0 = random_real(p.weight(), 5);
  expect_same(c.name, [&](Place& place) {
    const QTensor x = place.copy(o.x.view()), w = place.copy(o.w.view()), dy = place.copy(o.dy.view());
    const Tensor y = place.zeros(p.y, type), dx = add ? place.copy(dx0.view()) : place.zeros(p.x, type);
    const Tensor dw = add ? place.copy(dw0.view()) : place.zeros(p.weight());
    const Moments moments = place.moments(p.y.c);
    place.backend.conv_forward({p, x, w, y, {&moments, 1}});
    const Tensor alone = place.zeros(y.shape, y.dtype);  // without moments, other kernels may compute it
    place.backend.conv_forward({p, x, w, alone});
    place.keep("y without moments", alone);
    const Tensor beside = place.zeros(y.shape, y.dtype);  // nor without extremes
    const Moments all = place.moments(p.y.c), few{all.mean, all.variance};
    place.backend.conv_forward({p, x, w, beside, {&few, 1}});
    place.keep("y without extremes", beside), place.keep("moments without extremes", all, p.y.c);
    place.backend.conv_backward_data({p, dy, w, {dx, add}});
    place.backend.conv_backward_weight({p, x, dy, {dw, add}});
    place.keep("y", y), place.keep("moments", moments, p.y.c), place.keep("dx", dx), place.keep("dw", dw);
  });
}

TEST(CudaConvolution, CodesEqualTheCpu) {
  bool add = false;
  for (const ConvCase& c : conv_cases()) {
    expect_same_convolution(c, codes_of(c.problem), add ? DType::bf16 : DType::f32, add);
    expect_same_convolution(c, unsigned_codes_of(c.problem), add ? DType::bf16 : DType::f32, add);
    if (HasFailure()) return;
    add = !add;
  }
}

// More pixels than a tile, more items than one, channels beyond a tile, several splits.
TEST(CudaConvolution, LargerCodesEqualTheCpu) {
  const ConvCase cases[] = {
      square_case({3, 19, 17, 80}, 72, 3, 1, 1), square_case({5, 16, 16, 32}, 64, 3, 2, 1),
      square_case({9, 12, 12, 64}, 130, 1, 1, 0), square_case({40, 7, 7, 24}, 40, 3, 1, 1),
      square_case({6, 14, 14, 48}, 48, 3, 2, 1, 1, 48),
      // tiles of 128 columns in all three passes, whole ones and the end of one
      square_case({5, 9, 7, 128}, 128, 3, 1, 1), square_case({17, 5, 6, 144}, 520, 1, 2, 0),
      // several tiles for a block of the data gradient
      square_case({9, 23, 23, 128}, 48, 1, 1, 0), square_case({7, 32, 32, 128}, 32, 3, 2, 1),
      // splits of a weight gradient, with each of its tiles
      square_case({17, 12, 12, 128}, 130, 1, 1, 0), square_case({5, 23, 23, 16}, 72, 3, 1, 1),
      square_case({3, 53, 53, 96}, 24, 1, 1, 0), square_case({6, 27, 29, 24}, 144, 1, 1, 0),
      // depthwise
      square_case({2, 14, 14, 96}, 96, 3, 1, 1, 1, 96), square_case({3, 15, 13, 144}, 144, 3, 2, 1, 1, 144),
      square_case({1, 7, 7, 24}, 24, 3, 1, 1, 1, 24), square_case({5, 45, 45, 32}, 32, 3, 1, 1, 1, 32),
      square_case({2, 9, 9, 20}, 20, 3, 2, 0, 1, 20), square_case({2, 6, 5, 12}, 12, 2, 1, 0, 1, 12)};
  for (const ConvCase& c : cases) {
    expect_same_convolution(c, unsigned_codes_of(c.problem), DType::bf16, false);
    if (HasFailure()) return;
  }
}

TEST(CudaConvolution, RandomProblemsEqualTheCpu) {
  for (const ConvCase& c : random_conv_cases(40)) {
    expect_same_convolution(c, unsigned_codes_of(c.problem), DType::bf16, false);
    if (HasFailure()) return;
  }
}

// More than 131,072 pixels of extreme codes: the weight gradient leaves int32.
TEST(CudaConvolution, WideSumsAreExact) {
  const ConvCase c = square_case({1, 365, 365, 2}, 3, 1, 1, 0);
  Operands operands = codes_of(c.problem);
  std::fill_n(operands.x.s8(), operands.x.elements(), int8_t{127});
  std::fill_n(operands.dy.s8(), operands.dy.elements(), int8_t{-127});
  expect_same_convolution(c, operands, DType::f32, false);
  operands.x = random_unsigned_codes(c.problem.x, 1);
  std::fill_n(operands.x.s8(), operands.x.elements(), int8_t{-1});  // 255
  expect_same_convolution(c, operands, DType::f32, false);
}

// Sums of products as large as they can be: those of eight rows fit into int32, those of 64 do not; those of eight do
// not either; a channel that others follow.
TEST(CudaConvolution, MomentsOfTheLargestSumsAreExact) {
  for (const ConvCase& c : {square_case({2, 5, 7, 8288}, 32, 1, 1, 0), square_case({1, 5, 5, 9000}, 16, 1, 1, 0),
                            square_case({1, 3, 3, 40000}, 3, 1, 1, 0)}) {
    Operands operands = unsigned_codes_of(c.problem);
    std::fill_n(operands.x.s8(), operands.x.elements(), int8_t{-1});  // 255
    for (int64_t i = 0; i < operands.w.elements(); ++i)
      operands.w.s8()[i] = i / c.problem.x.c % 2 == 0 ? int8_t{127} : int8_t{-127};
    expect_same_convolution(c, operands, DType::bf16, false);
    if (HasFailure()) return;
  }
}

// 65,545 items of 512 pixels: more than the second extent of a CUDA grid allows.
TEST(CudaConvolution, WideGridOfAWeightGradient) {
  ConvProblem p = square_case({1, 5793, 5793, 2}, 2, 1, 1, 0, 1, 2).problem;
  const OwnedQTensor x = random_codes(p.x, 1), dy = random_codes(p.y, 3);
  expect_same("a weight gradient of many items", [&](Place& place) {
    const Tensor dw = place.zeros(p.weight());
    place.backend.conv_backward_weight({p, place.copy(x.view()), place.copy(dy.view()), {dw}});
    place.keep("dw", dw);
  });
}

TEST(CudaConvolution, RealValuesEqualTheCpuInFixedOrder) {
  bool add = false;
  for (const ConvCase& c : {square_case({70, 1, 1, 200}, 90, 1, 1, 0), square_case({3, 5, 5, 128}, 33, 1, 1, 0)})
    for (const bool adds : {false, true}) expect_same_convolution(c, reals_of(c.problem), DType::f32, adds);
  for (const ConvCase& c : conv_cases()) {
    expect_same_convolution(c, reals_of(c.problem), DType::f32, add);
    if (HasFailure()) return;
    add = !add;
  }
  for (const ConvCase& c : {square_case({7, 20, 20, 3}, 16, 3, 1, 1), square_case({2, 37, 33, 3}, 64, 7, 2, 3),
                            square_case({2, 23, 31, 3}, 128, 11, 4, 2), square_case({70, 1, 1, 130}, 192, 1, 1, 0)})
    expect_same_convolution(c, reals_of(c.problem), DType::f32, false);
}

// Where sums are cut is written down twice, for tables and for GPUs.
TEST(CudaConvolution, ItemsAreTheCpus) {
  const cpu::IsaKernels& plain = cpu::kernels_of(Isa::scalar);
  for (const ConvCase& c : conv_cases()) {
    const ConvProblem p = as_pixel_list(c.problem);
    EXPECT_EQ(moment_images(p), cpu::plan_forward(c.problem, *plain.real).images) << c.name;
    EXPECT_EQ(gradient_images(p), cpu::plan_backward_weight(c.problem, *plain.real).images) << c.name;
  }
}

// Weights that quantize_all() has written are known transposed, until they change in some other way.
TEST(CudaConvolution, DataGradientsFollowTheirWeights) {
  const ConvProblem p = square_case({2, 9, 7, 24}, 40, 3, 1, 1).problem;
  const OwnedTensor first = random_real(p.weight(), 2), second = random_real(p.weight(), 7);
  const OwnedQTensor dy = random_codes(p.y, 3), others = random_codes(p.weight(), 8);
  expect_same("data gradients after changes of weights", [&](Place& place) {
    const Encoding encoding{DType::s8, 127};
    const QTensor w = place.zeros_for(encoding, p.weight()), beside = place.zeros_for(encoding, p.weight());
    const QTensor errors = place.copy(dy.view());
    const Tensor from_first = place.copy(first.view()), from_second = place.copy(second.view());
    Tensor dx[6];
    for (Tensor& tensor : dx) tensor = place.zeros(p.x);
    const auto quantized = [&](const Tensor& from, const QTensor& to) { return QuantizeCall{from, encoding, {}, to}; };
    const auto compute = [&](const QTensor& weights, const Tensor& to) {
      place.backend.conv_backward_data({p, errors, weights, {to}});
    };
    const QuantizeCall both[] = {quantized(from_first, w), quantized(from_second, beside)};
    place.backend.quantize_all(both);
    compute(w, dx[0]), compute(beside, dx[1]);
    place.backend.quantize(quantized(from_second, w));
    compute(w, dx[2]), compute(beside, dx[3]);
    place.backend.to_device(beside.values.data, others.view().values.data, beside.values.bytes());
    compute(beside, dx[4]);
    place.backend.quantize_all(both);
    compute(w, dx[5]);
    for (size_t i = 0; i < std::size(dx); ++i) place.keep(say("dx ", i), dx[i]);
  });
}

TEST(CudaConvolution, DivisorsAreExact) {
  constexpr int most = std::numeric_limits<int>::max();
  std::vector<int> divisors = {12544, 65535, 65536, 65537, (1 << 30) - 1, 1 << 30, (1 << 30) + 1, most - 1, most};
  for (int by = 1; by <= 1000; ++by) divisors.push_back(by);
  for (const int by : divisors) {
    const cuda::Divisor divisor(by);
    for (const int64_t multiple : {int64_t{0}, int64_t{by}, int64_t{7} * by, int64_t{most / by} * by})
      for (const int64_t n : {multiple - 1, multiple, multiple + 1})
        if (n >= 0 && n <= most) {
          ASSERT_EQ(cuda::quotient(static_cast<int>(n), divisor), n / by) << n << " / " << by;
        }
    ASSERT_EQ(cuda::quotient(most, divisor), most / by) << by;
  }
}

TEST(CudaConvolution, RefusesOperandsOfTwoKinds) {
  const ConvProblem p = square_case({1, 4, 4, 3}, 5, 3, 1, 1).problem;
  const Operands codes = codes_of(p), reals = reals_of(p);
  const OwnedTensor y(p.y);
  EXPECT_THROW(cuda_backend().conv_forward({p, codes.x, reals.w, y}), Error);
}

}  // namespace
}  // namespace octet::test
