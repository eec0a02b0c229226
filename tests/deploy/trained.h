// Networks after a few steps, and their integers.
#pragma once
#include "src/deploy/fold.h"
#include "src/deploy/integer_policy.h"
#include "src/deploy/network.h"
#include "tests/graph/harness.h"

namespace octet {

struct Case {
  const char* network;
  int64_t size;
  bool quantizes_last = false;
};

inline Config config_of(const Case& c) {
  Config config;
  config.model.name = c.network;
  config.model.classes = 10;
  config.policy.quantize_last = c.quantizes_last;
  config.train.lr = 0.01;
  return config;
}

// A network after a few steps, with running statistics that are no longer those of the start.
inline Harness trained(const Case& c, int64_t batch, int64_t steps = 12) {
  Harness harness(config_of(c), make_cpu_backend({.isa = best_isa(), .threads = 2}), batch, c.size, {});
  for (int64_t step = 0; step < steps; ++step) harness.train(step);
  harness.step->begin_evaluation();
  return harness;
}

inline IntegerLayers folded(Harness& harness) {
  return fold(harness.plan(), harness.step->parameters(), harness.step->backend(), of_photographs);
}

inline std::unique_ptr<TrainingStep> integer_step(const Harness& harness, const IntegerLayers& layers,
                                                  std::unique_ptr<Backend> backend,
                                                  const TrainingStep::Network& network) {
  auto step = std::make_unique<TrainingStep>(
      harness.config, *harness.transport, std::make_unique<IntegerPolicy>(layers), std::move(backend), network,
      TrainingStep::Options{.plan = {}, .batch = harness.batch, .threads = 2, .training = false});
  step->begin_evaluation();
  return step;
}

// The network of the configuration, for images of that size.
inline TrainingStep::Network configured(const Harness& harness, int64_t size) {
  return [&harness, size](const Policy& policy, bool trains, int) {
    return task_of(harness.config).network(harness.config, policy, size, size, trains);
  };
}

inline std::vector<float> integer_logits(const Harness& harness, const IntegerLayers& layers,
                                         std::unique_ptr<Backend> backend, int64_t size) {
  return integer_step(harness, layers, std::move(backend), configured(harness, size))
      ->evaluate(harness.batch_of(0), true)
      .logits;
}

inline IntegerNetwork network_of(const Harness& harness, const IntegerLayers& layers, int64_t size) {
  const auto step = integer_step(harness, layers, make_reference_backend(), configured(harness, size));
  return integer_network(step->plan(), of_photographs);
}

inline double mean_square(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += double(value) * value;
  return sum / double(values.size());
}

inline double relative_square(std::vector<float> values, const std::vector<float>& expected) {
  for (size_t i = 0; i < values.size(); ++i) values[i] -= expected[i];
  return mean_square(values) / mean_square(expected);
}

inline std::string name_of_case(const testing::TestParamInfo<Case>& of) {
  return say(of.param.network, of.param.quantizes_last ? "_last" : "");
}

}  // namespace octet
