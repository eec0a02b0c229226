// The optimizers and the running statistics of the reference backend against steps by hand and PyTorch's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/passes.h"

namespace octet {
namespace {
using namespace test;

class ReferenceUpdates : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend = make_reference_backend();
};

TEST_F(ReferenceUpdates, AverageMovesByAShareOfTheDistance) {
  const OwnedTensor value({1, 1, 1, 2}), average({1, 1, 1, 2});
  value.f32()[0] = 4, average.f32()[0] = 2, value.f32()[1] = -1, average.f32()[1] = 3;
  backend->move_average(0.25f, value, average);
  EXPECT_EQ(average[0], 2.5f);
  EXPECT_EQ(average[1], 2);
}

// Two steps of torch.optim.SGD by hand: lr 0.5, momentum 0.5, decay 0.25, all values exact in binary.
TEST_F(ReferenceUpdates, SgdTakesTheStepsOfPyTorch) {
  for (const bool nesterov : {false, true}) {
    const OwnedTensor w({1, 1, 1, 1}), gradient({1, 1, 1, 1}), velocity({1, 1, 1, 1});
    w.f32()[0] = 4, gradient.f32()[0] = 1;
    SgdStep step{{0.25f, 0.5f, 0.25f, nesterov, 2}, w, gradient, velocity};  // twice the rate of the other parameters
    backend->sgd_update({&step, 1});                                         // slope 2, velocity 2
    EXPECT_EQ(velocity[0], 2);
    EXPECT_EQ(w[0], nesterov ? 2.5f : 3.0f);
    const float half = 0.5f;
    step.lr_scale = &half;
    backend->sgd_update({&step, 1});  // slope 1.625 or 1.75, velocity 2.625 or 2.75
    EXPECT_EQ(w[0], nesterov ? 2.5f - 0.25f * (1.625f + 0.5f * 2.625f) : 3 - 0.25f * 2.75f);
  }
}

// Three steps of torch.optim.AdamW in double precision: lr 0.25, betas (0.75, 0.875), eps 0.01, decay 0.125.
TEST_F(ReferenceUpdates, AdamWTakesTheStepsOfPyTorch) {
  const float gradients[3][2] = {{1, -2}, {0.25f, 0.5f}, {-3, 0}};
  const double weights[3][2] = {{3.6274752475247523, -0.23561878109452733},
                                {3.314903437344565, -0.12794971014518597},
                                {3.3367958170384453, -0.051861349793778114}};
  const Shape two{1, 1, 1, 2};
  const OwnedTensor w(two), gradient(two), mean(two), square(two);
  const float half = 0.5f;
  w.f32()[0] = 4, w.f32()[1] = -0.5f;
  double first = 1, second = 1;
  for (int step = 0; step < 3; ++step) {
    std::copy_n(gradients[step], 2, gradient.f32());
    first *= 0.75, second *= 0.875;
    // twice the rate of the other parameters, and half of it by the scale of the layer
    const AdamWProblem problem{0.25f, 0.75f, 0.875f, 0.01f, 0.125f, 2, {float(1 - first), float(sqrt(1 - second))}};
    const AdamWStep update{problem, w, gradient, mean, square, &half};
    backend->adamw_update({&update, 1});
    for (int i = 0; i < 2; ++i) EXPECT_NEAR(w[i], weights[step][i], 1e-6) << step;
  }
  EXPECT_EQ(mean[0], -0.5625f);
  EXPECT_EQ(square[1], 0.41015625f);
}

TEST_F(ReferenceUpdates, RunningStatisticsUseTheUnbiasedVariance) {
  const OwnedMoments batch(1);
  const OwnedTensor mean({1, 1, 1, 1}), variance({1, 1, 1, 1});
  batch.mean.f32()[0] = 8, batch.variance.f32()[0] = 3, variance.f32()[0] = 4;
  const RunningStep step{batch, 4, 0.25f, mean, variance};
  backend->update_running({&step, 1});
  EXPECT_EQ(mean[0], 2);
  EXPECT_EQ(variance[0], 4);  // 0.75 * 4 + 0.25 * 3 * 4 / 3
}

}  // namespace
}  // namespace octet
