// One network with everything a step needs, on one rank.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "comm/exchange.h"
#include "comm/transports.h"
#include "src/graph/models.h"
#include "src/graph/plan.h"

namespace octet {

struct Harness {
  Config config;
  std::unique_ptr<Transport> transport = make_self_transport();
  std::unique_ptr<Policy> policy;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<ClipCoordinator> clips;
  std::unique_ptr<Plan> plan;
  std::unique_ptr<GradientExchange> exchange;
  std::vector<float> images;
  std::vector<int32_t> labels;
  int64_t batch;

  Harness(const Config& c, std::unique_ptr<Backend> b, int64_t samples, int64_t size, PlanOptions options)
      : Harness(c, std::move(b), samples, size, options,
                make_model(c.model, size, size, float(c.train.label_smoothing))) {}
  Harness(const Config& c, std::unique_ptr<Backend> b, int64_t samples, int64_t size, PlanOptions options, Graph graph)
      : config(c), policy(make_policy(c)), backend(std::move(b)), batch(samples) {
    if (policy->needs_clips()) clips = std::make_unique<ClipCoordinator>(c.policy, *transport, *backend);
    plan = std::make_unique<Plan>(std::move(graph), *policy, *backend, clips.get(), samples, options);
    plan->initialize_parameters(uint64_t(c.seed));
    exchange = make_exchange({}, make_self_transport(), plan->gradients(), plan->slices(), 1);
    images.resize(size_t(samples * size * size * 3));
    labels.resize(size_t(samples));
    for (size_t i = 0; i < images.size(); ++i) images[i] = float(philox(i, 7, 7, 7).word[0]) / 4294967296.0f * 4 - 2;
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = int32_t(i * 7 + 3) % int32_t(c.model.classes);
  }

  Step begin(int64_t index, bool training) {
    Step step{.backend = *backend, .memory = plan->memory()};
    step.clips = clips.get();
    step.index = uint32_t(index);
    step.training = training;
    step.seed = uint64_t(config.seed);
    step.gradient_scale = policy->loss_scale() / float(batch);
    plan->load(step, images.data(), labels.data());
    if (training) {
      if (clips) clips->begin(index);
      exchange->begin(step.index);
    }
    return step;
  }

  // Forward, backward and update, as Trainer::step on one rank. Returns the mean loss.
  double train(int64_t index) {
    Step step = begin(index, true);
    plan->choose_weight_clips();
    plan->encode_weights(step);
    plan->forward(step);
    plan->backward(step, *exchange);
    exchange->finish();
    if (clips) clips->update();
    plan->commit(step);
    UpdateContext context;
    context.sgd = {float(config.train.lr), float(config.train.momentum), float(config.train.decay), false};
    uint32_t site = 0x40000000u;
    for (Param& param : plan->params()) {
      context.weight = is_weight(param.kind);
      context.spared = param.spared;
      context.lr_scale = param.lr_scale;
      context.key = {uint64_t(config.seed), uint32_t(index), site++, 0};
      policy->update(*backend, context, param.master, param.gradient, param.velocity);
    }
    return plan->outcome(true).loss.loss_sum / double(batch);
  }

  double evaluate() {
    Step step = begin(0, false);
    plan->choose_weight_clips();
    plan->encode_weights(step);
    plan->forward(step);
    return plan->outcome(false).loss.loss_sum / double(batch);
  }

  Param& param(const std::string& name) {
    for (Param& param : plan->params())
      if (param.name == name) return param;
    throw std::runtime_error("no parameter " + name);
  }
  std::vector<float> weights() {
    std::vector<float> all;
    for (Param& param : plan->params())
      all.insert(all.end(), param.master.f32(), param.master.f32() + param.master.elements());
    return all;
  }
};

}  // namespace octet
