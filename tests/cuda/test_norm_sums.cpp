// A data gradient that sums for the norm behind it, and the norm's pass, against the CPU, which sums in the pass.
#include "tests/cuda/compare.h"

namespace octet::test {
namespace {

// fits: whether the data gradient can.
void expect_same_sums(const ConvProblem& p, Activation activation, bool add, bool fits) {
  const NormOperands norm(p.x.c);
  const OwnedTensor x = random_real(p.x, 5, 1, DType::bf16), dx0 = random_real(p.x, 8, 20, DType::bf16);
  const OwnedQTensor dy = random_codes(p.y, 3), w = random_codes(p.weight(), 2);
  AffineProblem problem{p.x};
  problem.activation = activation;
  const float held = 5;
  const Encoding encoding{DType::s8, 127, Rounding::stochastic, Range::held, &held};
  expect_same(
      say("sums of ", p.x.n, "x", p.x.h, "x", p.x.w, "x", p.x.c, " activation ", static_cast<int>(activation)),
      [&](Place& place) {
        const QTensor error = place.zeros_for(encoding, p.x);
        const Tensor d_gamma = place.zeros(norm.gamma.view().shape), d_beta = place.zeros(norm.gamma.view().shape);
        const AffineParameters parameters = place.parameters(norm);
        const Moments moments = place.copy(norm.moments, p.x.c);
        const Tensor dx = add ? place.copy(dx0.view()) : place.zeros(p.x, DType::bf16), values = place.copy(x.view());
        NormSums sums{problem, values, moments, parameters, {}, {d_gamma}, {d_beta}};
        if (activation != Activation::none) {
          sums.mask = place.zeros(mask_shape(p.x), DType::u8);
          place.backend.affine_forward(
              {problem, values, moments, parameters, {}, {}, {}, {place.zeros(p.x)}, {}, sums.mask});
        }
        place.backend.conv_backward_data({p, place.copy(dy.view()), place.copy(w.view()), {dx, add}, &sums});
        EXPECT_EQ(sums.made != 0, fits && place.backend.name() == "cuda");
        place.backend.affine_backward({.problem = problem,
                                       .x = values,
                                       .moments = moments,
                                       .parameters = parameters,
                                       .mask = sums.mask,
                                       .dy = dx,
                                       .d_gamma = {d_gamma},
                                       .d_beta = {d_beta},
                                       .encoding = place.copy(encoding),
                                       .key = {1, 2, 3, 4000},
                                       .grad_output = error,
                                       .sums = &sums});
        place.keep("dx", dx), place.keep("error", error), place.keep("d_gamma", d_gamma), place.keep("d_beta", d_beta);
      });
}
TEST(CudaNormSums, DataGradientsSumForTheNormBehindThem) {
  for (const bool add : {false, true})
    for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6}) {
      expect_same_sums(square_case({3, 13, 11, 64}, 128, 1, 1, 0).problem, activation, add, true);
      expect_same_sums(square_case({2, 9, 7, 24}, 40, 3, 1, 1).problem, activation, add, true);
    }
  expect_same_sums(square_case({70, 9, 9, 136}, 16, 1, 1, 0).problem, Activation::relu, false, true);
  expect_same_sums(square_case({1, 1, 1, 512}, 16, 1, 1, 0).problem, Activation::relu, true, true);
  expect_same_sums(square_case({2, 12, 12, 64}, 32, 3, 2, 1).problem, Activation::relu, true, false);
  expect_same_sums(square_case({2, 9, 7, 20}, 40, 3, 1, 1).problem, Activation::relu, true, false);
  expect_same_sums(square_case({2, 9, 7, 16}, 16, 3, 1, 1, 1, 16).problem, Activation::relu, false, false);
}
// A backend keeps what follows from one norm's sums until it is taken: another norm's pass sums.
TEST(CudaNormSums, SumsOfAnotherNormAreNotTaken) {
  const ConvProblem p = square_case({3, 13, 11, 64}, 128, 1, 1, 0).problem;
  const NormOperands norm(p.x.c);
  const OwnedQTensor dy = random_codes(p.y, 3), w = random_codes(p.weight(), 2), other_dy = random_codes(p.y, 4);
  const OwnedTensor x = random_real(p.x, 5, 1, DType::bf16), other_x = random_real(p.x, 6, 1, DType::bf16);
  const float held = 5;
  const Encoding encoding{DType::s8, 127, Rounding::stochastic, Range::held, &held};
  expect_same("sums of two norms", [&](Place& place) {
    const AffineParameters parameters = place.parameters(norm);
    const Moments moments = place.copy(norm.moments, p.x.c);
    const Tensor inputs[] = {place.copy(x.view()), place.copy(other_x.view())};
    const Tensor gradients[] = {place.zeros(p.x, DType::bf16), place.zeros(p.x, DType::bf16)};
    const QTensor from[] = {place.copy(dy.view()), place.copy(other_dy.view())}, weights = place.copy(w.view());
    const AffineProblem problem{p.x};
    const Shape row = norm.gamma.view().shape;
    const Tensor gammas[] = {place.zeros(row), place.zeros(row)}, betas[] = {place.zeros(row), place.zeros(row)};
    NormSums sums[2];
    for (const int i : {0, 1}) {
      sums[i] = {problem, inputs[i], moments, parameters, {}, {gammas[i]}, {betas[i]}};
      place.backend.conv_backward_data({p, from[i], weights, {gradients[i]}, &sums[i]});
      EXPECT_EQ(sums[i].made != 0, i == 0 && place.backend.name() == "cuda");
    }
    for (const int i : {0, 1}) {
      const QTensor error = place.zeros_for(encoding, p.x);
      place.backend.affine_backward({.problem = problem,
                                     .x = inputs[i],
                                     .moments = moments,
                                     .parameters = parameters,
                                     .dy = gradients[i],
                                     .d_gamma = {gammas[i]},
                                     .d_beta = {betas[i]},
                                     .encoding = place.copy(encoding),
                                     .key = {1, 2, 3, 4000},
                                     .grad_output = error,
                                     .sums = &sums[i]});
      place.keep("error", error), place.keep("d_gamma", gammas[i]), place.keep("d_beta", betas[i]);
    }
  });
}

// The gradient of a residual, which no pass has written: the data gradient is added to what the mask lets pass of the
// sum's gradient. On the CPU a pass writes it.
void expect_same_masked(const ConvProblem& p, DType type, bool sums_on_the_way) {
  const NormOperands norm(p.x.c);
  const OwnedTensor x = random_real(p.x, 5, 1, type), dx0 = random_real(p.x, 8, 20, type);
  const OwnedQTensor dy = random_codes(p.y, 3), w = random_codes(p.weight(), 2);
  AffineProblem problem{p.x};
  problem.activation = Activation::relu;
  expect_same(say("masked ", p.x.c, " channels, ", name_of(type)), [&](Place& place) {
    const AffineParameters parameters = place.parameters(norm);
    const Moments moments = place.copy(norm.moments, p.x.c);
    const Tensor dx = place.copy(dx0.view()), values = place.copy(x.view());
    const Tensor mask = place.zeros(mask_shape(p.x), DType::u8);
    place.backend.affine_forward({problem, values, moments, parameters, {}, {}, {}, {place.zeros(p.x)}, {}, mask});
    Into into{dx, true};
    if (place.backend.name() == "cuda") {
      into.mask = mask;
    } else {
      into.tensor = place.zeros(p.x, type);
      place.backend.affine_backward({.problem = problem,
                                     .x = values,
                                     .moments = moments,
                                     .parameters = parameters,
                                     .mask = mask,
                                     .dy = dx,
                                     .d_residual = {into.tensor},
                                     .grad_output = {place.zeros(p.x)}});
    }
    const Tensor d_gamma = place.zeros(norm.gamma.view().shape), d_beta = place.zeros(norm.gamma.view().shape);
    NormSums sums{AffineProblem{p.x}, values, moments, parameters, {}, {d_gamma}, {d_beta}};
    place.backend.conv_backward_data({p, place.copy(dy.view()), place.copy(w.view()), into, &sums});
    EXPECT_EQ(sums.made != 0, sums_on_the_way && place.backend.name() == "cuda");
    place.backend.affine_backward({.problem = AffineProblem{p.x},
                                   .x = values,
                                   .moments = moments,
                                   .parameters = parameters,
                                   .dy = into.tensor,
                                   .d_gamma = {d_gamma},
                                   .d_beta = {d_beta},
                                   .grad_output = {place.zeros(p.x)},
                                   .sums = &sums});
    place.keep("dx", into.tensor), place.keep("d_gamma", d_gamma), place.keep("d_beta", d_beta);
  });
}
TEST(CudaNormSums, DataGradientsAreAddedToWhatAMaskLetsPass) {
  expect_same_masked(square_case({3, 13, 11, 64}, 128, 1, 1, 0).problem, DType::bf16, true);
  expect_same_masked(square_case({2, 9, 7, 24}, 40, 3, 1, 1).problem, DType::bf16, true);
  expect_same_masked(square_case({2, 9, 7, 256}, 40, 3, 1, 1).problem, DType::f32, false);
  expect_same_masked(square_case({2, 9, 7, 21}, 40, 3, 1, 1).problem, DType::bf16, false);
  expect_same_masked(square_case({2, 9, 7, 4}, 16, 1, 1, 0).problem, DType::f32, false);
}

// A data gradient of one tap with a stride of 2 writes even pixels alone, and the next one adds to these. Here the
// CPU writes zeros at the others.
void expect_same_with_gaps(Shape x, DType type) {
  const ConvProblem shortcut = square_case({x.n, x.h, x.w, x.c}, 48, 1, 2, 0).problem;
  const ConvProblem first = square_case({x.n, x.h, x.w, x.c}, 32, 1, 1, 0).problem;
  const OwnedTensor before = random_real(x, 8, 20, type);
  const OwnedQTensor from[] = {random_codes(shortcut.y, 3), random_codes(first.y, 4)};
  const OwnedQTensor weights[] = {random_codes(shortcut.weight(), 1), random_codes(first.weight(), 2)};
  expect_same(say("gaps of ", x.h, "x", x.w, "x", x.c, ", ", name_of(type)), [&](Place& place) {
    const bool gaps = place.backend.name() == "cuda";
    const Tensor dx = place.copy(before.view());
    const auto copied = [&](const OwnedQTensor& codes) { return place.copy(codes.view()); };
    place.backend.conv_backward_data({shortcut, copied(from[0]), copied(weights[0]), {dx, false, {}, gaps}});
    place.backend.conv_backward_data({first, copied(from[1]), copied(weights[1]), {dx, true, {}, gaps}});
    place.keep("dx", dx);
  });
}
TEST(CudaNormSums, DataGradientsOfEvenPixelsLeaveGaps) {
  for (const DType type : {DType::bf16, DType::f32}) {
    expect_same_with_gaps({3, 14, 14, 64}, type);
    expect_same_with_gaps({2, 9, 7, 136}, type);
    expect_same_with_gaps({2, 5, 4, 20}, type);
    expect_same_with_gaps({5, 1, 1, 64}, type);
  }
}

}  // namespace
}  // namespace octet::test
