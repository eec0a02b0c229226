#include "src/train/dry_plan.h"

#include "comm/transport.h"
#include "kernels/base/error.h"
#include "src/models/detectors.h"
#include "src/tasks/task.h"

namespace octet {

DryPlan::DryPlan(const Config& config, int64_t height, int64_t width, int64_t batch, const PlanOptions& options)
    : policy(make_policy(config)),
      transport(make_self_transport()),
      backend(make_reference_backend()),
      clips(config.policy, *transport, *backend),
      ranges(*transport, *backend),
      parameters(*policy, *backend, parameter_options(config)),
      plan(task_of(config).network(config, *policy, height, width, options.training), parameters, *policy, *backend,
           {&clips, &ranges}, batch, options) {}

void require_what_training_needs(const Config& config) {
  const Config::Model& model = config.model;
  // What is frozen stays as it is loaded, and random layers would give random features for good.
  REQUIRE_USAGE(config.train.freeze.empty() || !model.initial_weights.empty(), "set model.initial_weights",
                "train.freeze is ", config.train.freeze, ", but there are no weights to freeze");
  REQUIRE_USAGE(!freezes_backbone(model) || !model.initial_weights.empty() || !model.initial_backbone.empty(),
                "set model.initial_backbone to weights of the classification network, or model.norm: batch and "
                "model.freeze_stages: 0",
                model.freeze_stages > 0 ? say("model.freeze_stages is ", model.freeze_stages) : "model.norm is frozen",
                ", but there are no weights to freeze");
  REQUIRE_USAGE(config.train.patience == 0 || config.checkpoint.best, "set checkpoint.best: true",
                "train.patience needs the best evaluation, which checkpoint.best: false does not keep");
}

}  // namespace octet
