// The loss of mixed samples: the losses of both classes, weighted by their shares.
#include <cmath>

#include "src/graph/nodes/nodes.h"
#include "tests/graph/harness.h"

namespace octet {
namespace {

struct Answer {
  double loss;
  std::vector<float> gradients;
};

// One step without an update. others: empty: no sample is mixed.
Answer answer(std::unique_ptr<Backend> backend, const std::vector<int32_t>& labels, const std::vector<int32_t>& others,
              const std::vector<float>& shares) {
  Config config;
  config.policy.name = "fp32";
  config.train.lr = 0;
  Harness harness(
      config, std::move(backend), 4, 16, {.storage = DType::f32}, [&](const Policy& policy, bool training, int) {
        Graph graph(policy);
        const Edge x =
            conv(graph, "first", input(graph, {16, 16}), {.out = 8, .norm = "bn", .activation = Activation::relu});
        const Edge logits = linear(graph, "fc", global_pool(graph, "mean", x), {.out = 10, .gives_logits = true});
        const Edge auxiliary = linear(graph, "fc2", global_pool(graph, "mean2", x), {.out = 10, .gives_logits = true});
        softmax_loss(graph, {.heads = {{logits}, {auxiliary, 0.4f}},
                             .label_smoothing = 0.1f,
                             .hits = {"top1"},
                             .mixed = training && !others.empty()});
        return graph;
      });
  Batch batch = harness.batch_of(0);
  batch.targets = {.labels = labels.data()};
  if (!others.empty()) batch.targets = {labels.data(), others.data(), shares.data()};
  Answer result{harness.run(batch).figures.front().value, {}};
  for (Param& param : harness.params())
    result.gradients.insert(result.gradients.end(), param.gradient.f32(),
                            param.gradient.f32() + param.gradient.elements());
  return result;
}

TEST(MixedLoss, IsTheWeightedSum) {
  const std::vector<int32_t> labels = {3, 0, -1, 7}, others = {5, 0, -1, 2};
  constexpr float share = 0.3f;
  for (const bool reference : {true, false}) {
    const auto backend = [&] {
      return reference ? make_reference_backend() : make_cpu_backend({best_isa(), 2, RealConvolution::fixed_order});
    };
    const Answer first = answer(backend(), labels, {}, {}), second = answer(backend(), others, {}, {});
    const Answer mixed = answer(backend(), labels, others, std::vector<float>(4, share));
    EXPECT_NEAR(mixed.loss, share * first.loss + (1 - share) * second.loss, 1e-6);
    EXPECT_NE(first.gradients, second.gradients);
    ASSERT_EQ(mixed.gradients.size(), first.gradients.size());
    double largest = 0;
    for (const float gradient : first.gradients) largest = std::max(largest, std::abs(double(gradient)));
    for (size_t i = 0; i < mixed.gradients.size(); ++i)
      EXPECT_NEAR(mixed.gradients[i], share * first.gradients[i] + (1 - share) * second.gradients[i], 1e-5 * largest);
    EXPECT_EQ(answer(backend(), labels, others, std::vector<float>(4, 1)).gradients, first.gradients);
  }
}

TEST(MixedLoss, NeedsSharesAndLabels) {
  EXPECT_THROW(answer(make_reference_backend(), {1, 2, 3, 4}, {1, 2, 3, 10}, {1, 1, 1, 1}), Error);
}

}  // namespace
}  // namespace octet
