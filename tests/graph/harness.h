// One network with everything a step needs, on one rank and one batch of random images.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "src/tasks/task.h"
#include "src/train/dry_plan.h"
#include "src/train/training_step.h"

namespace octet {

struct Harness {
  using Network = TrainingStep::Network;
  Config config;
  std::unique_ptr<Transport> transport = make_self_transport();
  int64_t batch;
  std::vector<float> images;
  std::vector<int32_t> labels;
  std::unique_ptr<TrainingStep> step;

  Harness(const Config& c, std::unique_ptr<Backend> b, int64_t samples, int64_t size, PlanOptions options)
      : Harness(c, std::move(b), samples, size, options, [=](const Policy& policy, bool training, int) {
          return task_of(c).network(c, policy, size, size, training);
        }) {}
  Harness(const Config& c, std::unique_ptr<Backend> b, int64_t samples, int64_t size, PlanOptions options,
          const Network& network)
      : config(c), batch(samples) {
    config.data.batch = samples;
    step = std::make_unique<TrainingStep>(config, *transport, make_policy(c), std::move(b), network,
                                          TrainingStep::Options{.plan = options, .batch = samples, .threads = 2});
    images.resize(size_t(samples * size * size * 3));
    labels.resize(size_t(samples));
    for (size_t i = 0; i < images.size(); ++i) images[i] = float(philox(i, 7, 7, 7).word[0]) / 4294967296.0f * 4 - 2;
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = int32_t(i * 7 + 3) % int32_t(c.model.classes);
  }

  Batch batch_of(int64_t index) const {
    return {.images = images.data(), .targets = {labels.data()}, .count = batch, .step = index};
  }
  StepReport run(const Batch& of) { return step->run({.batch = of, .learning_rate = config.train.lr}); }
  double train(int64_t index) { return run(batch_of(index)).figures.front().value; }  // the mean loss
  double evaluate() {
    step->begin_evaluation();
    const Metric loss = step->evaluate(batch_of(0)).metrics.front();
    return loss.sum / loss.count;
  }

  Plan& plan() { return step->plan(); }
  const Plan& plan() const { return step->plan(); }
  std::vector<Param>& params() { return step->parameters().all(); }
  Param& param(const std::string& name) {
    for (Param& param : params())
      if (param.name == name) return param;
    throw std::runtime_error("no parameter " + name);
  }
  std::vector<float> weights() {
    std::vector<float> all;
    for (Param& param : params())
      all.insert(all.end(), param.master.f32(), param.master.f32() + param.master.elements());
    return all;
  }
};

inline Config int8_config(const std::string& model = "resnet20") {
  Config config;
  config.model.name = model;
  config.train.lr = 0.05;
  config.policy.clip.period = 4;
  return config;
}

inline std::vector<float> weights_after(const Config& config, int steps, PlanOptions options,
                                        std::unique_ptr<Backend> backend = make_reference_backend()) {
  Harness h(config, std::move(backend), 4, 16, options);
  for (int step = 0; step < steps; ++step) h.train(step);
  return h.weights();
}

}  // namespace octet
