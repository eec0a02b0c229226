// Nodes that share a layer's parameters: the gradient is the sum of what each use gives alone.
#include <cmath>

#include "src/graph/nodes/nodes.h"
#include "tests/graph/harness.h"

namespace octet {
namespace {

// Two uses of a 3x3 convolution, on a map and on its half. shared: both have the parameters of the layer `tower`.
Graph two_levels(const Policy& policy, bool shared) {
  Graph graph(policy);
  const Edge fine = conv(graph, "first", input(graph, {16, 16}), {.out = 8, .pad = 1, .activation = Activation::relu});
  const Edge coarse = pool(graph, "half", fine, {.kernel = 2, .stride = 2});
  std::vector<Edge> ends;
  for (const Edge x : {fine, coarse}) {
    const std::string name = "tower" + std::to_string(ends.size());
    ends.push_back(global_pool(
        graph, "mean" + std::to_string(ends.size()),
        conv(graph, name, x, {.out = 8, .pad = 1, .activation = Activation::relu, .layer = shared ? "tower" : ""})));
  }
  std::vector<Head> heads;
  for (const Edge end : ends)
    heads.push_back({linear(graph, "fc" + std::to_string(heads.size()), end, {.out = 10, .gives_logits = true})});
  softmax_loss(graph, {.heads = heads});
  return graph;
}

// Gradients of the weight and the bias of both uses, and those of the shared layer.
struct Gradients {
  std::vector<float> first, second, shared;
};
Gradients gradients(const std::string& policy, const std::string& name, int64_t group) {
  Config config;
  config.policy.name = policy;
  config.train.norm_group = group;
  if (group > 0) config.comm.exchange = "exact";
  const auto make = [&](bool shared) {
    return std::make_unique<Harness>(config, make_cpu_backend({best_isa(), 2, RealConvolution::fixed_order}), 8, 16,
                                     PlanOptions{.storage = DType::f32},
                                     [shared](const Policy& p, bool, int) { return two_levels(p, shared); });
  };
  const auto alone = make(false), together = make(true);
  for (Param& param : alone->params()) {
    const std::string from = param.name.starts_with("tower") ? "tower" + param.name.substr(6) : param.name;
    std::copy_n(together->param(from).master.f32(), param.master.elements(), param.master.f32());
  }
  alone->train(0);
  together->train(0);
  const auto values = [](Harness& h, const std::string& of) {
    const Tensor gradient = h.param(of).gradient;
    return std::vector<float>(gradient.f32(), gradient.f32() + gradient.elements());
  };
  return {values(*alone, "tower0." + name), values(*alone, "tower1." + name), values(*together, "tower." + name)};
}

TEST(SharedLayers, GradientsOfAllUsesAreAdded) {
  for (const char* name : {"weight", "bias"}) {
    for (const char* policy : {"fp32", "dorefa", "fp8"}) {
      const Gradients g = gradients(policy, name, 0);
      for (size_t i = 0; i < g.shared.size(); ++i)
        ASSERT_EQ(g.shared[i], g.second[i] + g.first[i]) << policy << " " << name << " " << i;
    }
    // One clip for all uses of the layer, so the codes are not those of two layers.
    const Gradients g = gradients("unified_int8", name, 4);
    double difference = 0, norm = 0;
    for (size_t i = 0; i < g.shared.size(); ++i) {
      const double sum = double(g.first[i]) + double(g.second[i]);
      difference += (g.shared[i] - sum) * (g.shared[i] - sum);
      norm += sum * sum;
    }
    EXPECT_LT(std::sqrt(difference / norm), 0.03) << name;
  }
}

TEST(SharedLayers, OtherShapesAndNormsAreRefused) {
  Config config;
  const auto train = [&](const ConvOptions& second) {
    Harness(config, make_cpu_backend({best_isa(), 1}), 4, 16, {}, [&](const Policy& policy, bool, int) {
      Graph graph(policy);
      const Edge x = conv(graph, "first", input(graph, {16, 16}), {.out = 8, .pad = 1, .layer = "tower"});
      const Edge y = conv(graph, "second", x, second);
      const Edge logits = linear(graph, "fc", global_pool(graph, "mean", y), {.out = 10, .gives_logits = true});
      softmax_loss(graph, {.heads = {{logits}}});
      return graph;
    });
  };
  EXPECT_THROW(train({.out = 8, .pad = 1, .layer = "tower"}), Error);  // of 8 inputs, not 3
  EXPECT_THROW(train({.out = 8, .pad = 1, .norm = "bn", .layer = "other"}), Error);
}

}  // namespace
}  // namespace octet
