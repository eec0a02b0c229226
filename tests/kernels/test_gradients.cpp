// Every backward pass of the reference against central differences of its forward pass, all in f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "tests/kernels/passes.h"
#include "tests/kernels/regions.h"

namespace octet {
namespace {
using namespace test;

// A scalar loss, and the branches (which side of each kink, which maximum) that led to it.
struct Loss {
  double value = 0;
  std::vector<int64_t> branches;
};

// sum of weight * y, with fixed random weights: dy is these weights.
Loss weighted_sum(const OwnedTensor& y, const OwnedTensor& weights) {
  Loss loss;
  for (int64_t i = 0; i < y.elements(); ++i) loss.value += static_cast<double>(y[i]) * weights[i];
  return loss;
}

// Central differences with the given step, against the analytic gradient: within 1e-3 of its largest element. Elements
// whose step crosses a kink are left out; at least half must remain.
void expect_gradient(const std::string& what, const OwnedTensor& input, const OwnedTensor& gradient, float step,
                     const std::function<Loss()>& loss) {
  ASSERT_EQ(input.elements(), gradient.elements()) << what;
  double largest = 0;
  for (int64_t i = 0; i < gradient.elements(); ++i) largest = std::max<double>(largest, std::fabs(gradient[i]));
  int64_t checked = 0;
  for (int64_t i = 0; i < input.elements(); ++i) {
    const float center = input.f32()[i], high = center + step, low = center - step;
    input.f32()[i] = high;
    const Loss above = loss();
    input.f32()[i] = low;
    const Loss below = loss();
    input.f32()[i] = center;
    if (above.branches != below.branches) continue;
    ++checked;
    const double numeric = (above.value - below.value) / (static_cast<double>(high) - low);
    EXPECT_NEAR(numeric, gradient[i], 1e-3 * largest) << what << ", element " << i;
  }
  EXPECT_GT(largest, 0) << what;
  EXPECT_GE(2 * checked, input.elements()) << what << ": too many kinks";
}

class Gradients : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend = make_reference_backend();
};

TEST_F(Gradients, Convolution) {
  const std::vector<ConvCase> cases = {square_case({2, 4, 5, 3}, 2, 3, 1, 1),
                                       square_case({1, 5, 6, 2}, 3, 3, 2, 1),
                                       square_case({1, 6, 6, 2}, 2, 3, 1, 2, 2),
                                       square_case({1, 4, 4, 4}, 6, 3, 1, 1, 1, 2),
                                       square_case({2, 5, 4, 3}, 3, 3, 2, 1, 1, 3),
                                       square_case({3, 1, 1, 7}, 5, 1, 1, 0),
                                       square_case({1, 7, 7, 2}, 1, 1, 3, 0),
                                       square_case({1, 7, 7, 1}, 2, 5, 3, 2),
                                       same_case({1, 6, 4, 2}, 3, 3, 2),
                                       same_case({1, 6, 5, 3}, 3, 5, 2, 3)};
  for (const auto& [name, problem] : cases) {
    const OwnedTensor x = random_real(problem.x, 1), w = random_real(problem.weight(), 2),
                      dy = random_real(problem.y, 3);
    const OwnedTensor y(problem.y), dx(problem.x), dw(problem.weight());
    const auto loss = [&, &problem = problem] {
      backend->conv_forward({problem, {x}, {w}, y});
      return weighted_sum(y, dy);
    };
    backend->conv_backward_data({problem, {dy}, {w}, {dx}});
    backend->conv_backward_weight({problem, {x}, {dy}, {dw}});
    expect_gradient(name + ", input", x, dx, 0.5f, loss);  // linear: a large step has no truncation error
    expect_gradient(name + ", weight", w, dw, 0.5f, loss);
  }
}

TEST_F(Gradients, Affine) {
  struct Norm {
    std::string name;
    bool normalize, batch_statistics;
  };
  const Shape shape{3, 4, 3, 5}, vector{1, 1, 1, 5};
  for (const Norm& norm :
       {Norm{"no norm", false, false}, Norm{"batch norm", true, true}, Norm{"frozen norm", true, false}}) {
    for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6}) {
      for (const bool with_residual : {false, true}) {
        const std::string name =
            say(norm.name, ", activation ", static_cast<int>(activation), with_residual ? ", residual" : "");
        const OwnedTensor x = random_real(shape, 1, 8), residual = random_real(shape, 2, 2), dy = random_real(shape, 3);
        const OwnedTensor gamma = random_real(vector, 4, 5), beta = random_real(vector, 5, 3);
        const OwnedTensor y(shape), dx(shape), d_residual(shape), d_gamma(vector), d_beta(vector);
        const OwnedMoments moments(shape.c);
        AffineProblem problem;
        problem.shape = shape;
        problem.normalize = norm.normalize;
        problem.batch_statistics = norm.batch_statistics;
        problem.activation = activation;
        const auto measure = [&] {
          for (int64_t c = 0; c < shape.c; ++c) {
            double sum = 0, squares = 0;
            for (int64_t i = c; i < x.elements(); i += shape.c) sum += x[i];
            for (int64_t i = c; i < x.elements(); i += shape.c) squares += std::pow(x[i] - sum / shape.pixels(), 2);
            moments.mean.f32()[c] = static_cast<float>(sum / shape.pixels());
            moments.variance.f32()[c] = static_cast<float>(squares / shape.pixels());
          }
        };
        const Moments given{moments.mean.f32(), moments.variance.f32(), nullptr, nullptr};
        const AffineParameters parameters{norm.normalize ? gamma.f32() : nullptr, beta.f32()};
        const QTensor added = with_residual ? QTensor{residual} : QTensor{};
        const auto loss = [&] {
          if (norm.batch_statistics) measure();
          backend->affine_forward({problem, x, given, parameters, added, {}, {}, {y}, {}});
          Loss result = weighted_sum(y, dy);
          for (int64_t i = 0; i < y.elements() && activation != Activation::none; ++i) {
            result.branches.push_back(y[i] <= 0 ? 0 : activation == Activation::relu6 && y[i] >= 6 ? 2 : 1);
          }
          return result;
        };
        measure();
        loss();
        const OwnedTensor mask = passes::mask_of(*backend, problem, x, given, parameters, added);
        backend->affine_backward(
            {problem, x, given, parameters, mask, dy, {d_gamma}, {d_beta}, {d_residual}, {}, {}, {dx}, {}});
        expect_gradient(name + ", input", x, dx, 0.005f, loss);
        expect_gradient(name + ", beta", beta, d_beta, 0.005f, loss);
        if (norm.normalize) expect_gradient(name + ", gamma", gamma, d_gamma, 0.005f, loss);
        if (with_residual) expect_gradient(name + ", residual", residual, d_residual, 0.005f, loss);
      }
    }
  }
}

TEST_F(Gradients, Pools) {
  for (const bool max : {true, false}) {
    for (const auto& [kernel, stride, pad] : {std::array{2, 2, 0}, std::array{3, 2, 1}, std::array{3, 1, 0}}) {
      PoolProblem problem{{2, 5, 6, 3}, {}, kernel, stride, pad, max ? PoolKind::max : PoolKind::average};
      problem.y = {2, output_extent(5, kernel, stride, pad), output_extent(6, kernel, stride, pad), 3};
      const OwnedTensor x(problem.x), dx(problem.x), y(problem.y), dy = random_real(problem.y, 1);
      for (int64_t i = 0; i < x.elements(); ++i) {
        x.f32()[i] = static_cast<float>(i * 77 % x.elements()) * 0.01f - 1;  // a permutation: no ties, gaps of 0.01
      }
      OwnedTensor choices;
      if (max) choices = OwnedTensor(problem.y, DType::u8);
      const auto loss = [&] {
        backend->pool_forward({problem, {x}, {y}, choices});
        return weighted_sum(y, dy);
      };
      loss();
      backend->pool_backward({problem, choices, dy, {dx}});
      expect_gradient(say(max ? "max" : "average", " pool ", kernel, "/", stride, "/", pad), x, dx, max ? 0.004f : 0.5f,
                      loss);
    }
  }
  PoolProblem rectified{{2, 5, 6, 3}, {2, 5, 6, 3}, 3, 1, 1};
  rectified.rectify = true;
  PoolProblem repeated{{2, 3, 4, 5}, {2, 9, 12, 5}, 3};
  repeated.kind = PoolKind::repeat;
  for (const PoolProblem& problem : {rectified, repeated}) {
    const OwnedTensor x(problem.x), dx(problem.x), y(problem.y), dy = random_real(problem.y, 1);
    for (int64_t i = 0; i < x.elements(); ++i)
      x.f32()[i] = static_cast<float>(i * 77 % x.elements()) * 0.01f - 1.395f;  // some maxima are below 0
    OwnedTensor choices;
    if (problem.rectify) choices = OwnedTensor(problem.y, DType::u8);
    const auto loss = [&] {
      backend->pool_forward({problem, {x}, {y}, choices});
      return weighted_sum(y, dy);
    };
    loss();
    backend->pool_backward({problem, choices, dy, {dx}});
    expect_gradient(problem.rectify ? "rectified pool" : "repeat", x, dx, 0.004f, loss);
  }
  const OwnedTensor x = random_real({2, 3, 4, 5}, 1), y({2, 1, 1, 5}), dy = random_real({2, 1, 1, 5}, 2),
                    dx({2, 3, 4, 5});
  backend->global_pool_backward({dy, {dx}});
  expect_gradient("global pool", x, dx, 0.5f, [&] {
    backend->global_pool_forward({{x}, y});
    return weighted_sum(y, dy);
  });
}

TEST_F(Gradients, Concatenation) {
  const OwnedTensor a = random_real({2, 3, 2, 3}, 1), b = random_real({2, 3, 2, 5}, 2),
                    c = random_real({2, 3, 2, 1}, 3);
  const OwnedTensor da({2, 3, 2, 3}), dc({2, 3, 2, 1}), y({2, 3, 2, 9}), dy = random_real({2, 3, 2, 9}, 4);
  const Into parts[] = {{da}, {{nullptr, {2, 3, 2, 5}}}, {dc}};  // nobody asks for the gradient of b
  backend->concat_backward({dy, parts});
  const auto loss = [&] {
    const QTensor inputs[] = {{a}, {b}, {c}};
    backend->concat_forward({inputs, {y}});
    return weighted_sum(y, dy);
  };
  expect_gradient("first part", a, da, 0.5f, loss);
  expect_gradient("last part", c, dc, 0.5f, loss);
}

TEST_F(Gradients, SigmoidLoss) {
  const int32_t labels[] = {0, 2, -1, 1, 3, 0, 0, -1};
  const float scale[] = {0.5f, 0.125f};
  for (const SigmoidProblem& problem :
       {SigmoidProblem{2, 3}, SigmoidProblem{2, 3, 0.25f, 2}, SigmoidProblem{2, 3, 0.4f, 1.5f}}) {
    const OwnedTensor logits = random_real({2, 1, 2, 6}, 1, 4), gradient({2, 1, 2, 6});
    LossReport report;
    backend->sigmoid_loss({problem, logits, labels, scale, 0.25f, gradient, &report});
    expect_gradient(say("gamma ", problem.gamma), logits, gradient, 0.01f, [&] {
      backend->sigmoid_loss({problem, logits, labels, scale, 0.25f, {}, &report});
      return Loss{report.loss_sum * 0.25, {}};
    });
  }
}

TEST_F(Gradients, BoxLoss) {
  const int32_t labels[] = {1, 0, 2, -1, 1, 2};
  const float scale[] = {0.5f, 0.125f, 1};
  for (const float beta : {0.0f, 1.0f / 9, 1.0f}) {
    for (const auto& one : {std::pair(2, 1), std::pair(1, 3)}) {
      const int boxes = one.first, choices = one.second;
      const Shape shape{3, 1, 2 / boxes, int64_t{boxes} * choices * 4};
      const BoxLossProblem problem{boxes, choices, 2 / boxes, beta};
      const OwnedTensor predictions = random_real(shape, 1, 2), targets = random_real({6, 1, 1, 4}, 2, 2),
                        gradient(shape);
      LossReport report;
      backend->box_loss({problem, predictions, targets, labels, scale, 0.25f, gradient, &report});
      expect_gradient(say("beta ", beta), predictions, gradient, 0.01f, [&] {
        backend->box_loss({problem, predictions, targets, labels, scale, 0.25f, {}, &report});
        Loss loss{report.loss_sum * 0.25, {}};
        for (int64_t i = 0; i < predictions.elements(); ++i) {
          const float difference = predictions[i] - targets[i / (choices * 4) * 4 + i % 4];
          loss.branches.push_back((difference > 0) + 2 * (std::fabs(difference) < beta));
        }
        return loss;
      });
    }
  }
}

TEST_F(Gradients, RoiPools) {
  for (RoiCase& one : roi_cases()) {
    RoiProblem& problem = one.problem;
    const int64_t bins = problem.y.h * problem.y.w;
    problem.y.c = 2;
    for (Shape& level : problem.levels) level.c = problem.kind == RoiKind::position_sensitive ? 2 * bins : 2;
    const OwnedTensor fine(problem.levels[0]), coarse(problem.levels[1]), y(problem.y), dy = random_real(problem.y, 3);
    for (const OwnedTensor& map : {fine, coarse})
      for (int64_t i = 0; i < map.elements(); ++i)
        map.f32()[i] = static_cast<float>(i * 77 % map.elements()) * 0.01f - 1;  // no ties: gaps of 0.01
    const OwnedTensor d_fine(problem.levels[0]), d_coarse(problem.levels[1]);
    const QTensor levels[] = {{fine}, {coarse}};
    const Into into[] = {{d_fine}, {d_coarse}};
    const auto loss = [&] {
      backend->roi_pool_forward({problem, levels, one.table, {y}});
      return weighted_sum(y, dy);
    };
    backend->roi_pool_backward({problem, levels, one.table, dy, into});
    const float step = problem.kind == RoiKind::max ? 0.004f : 0.5f;
    expect_gradient(one.name + ", first level", fine, d_fine, step, loss);
    expect_gradient(one.name + ", second level", coarse, d_coarse, step, loss);
  }
}

TEST_F(Gradients, Softmax) {
  const int32_t labels[] = {0, 6, -1, 3};
  for (const float smoothing : {0.0f, 0.1f}) {
    const OwnedTensor logits = random_real({4, 1, 1, 7}, 1, 3), gradient({4, 1, 1, 7});
    LossReport report;
    backend->softmax_loss({logits, labels, nullptr, smoothing, 0.25f, gradient, &report});
    expect_gradient(say("smoothing ", smoothing), logits, gradient, 0.01f, [&] {
      backend->softmax_loss({logits, labels, nullptr, smoothing, 0.25f, {}, &report});
      return Loss{report.loss_sum * 0.25, {}};
    });
  }
}

}  // namespace
}  // namespace octet
