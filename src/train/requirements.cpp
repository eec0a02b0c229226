#include "src/train/requirements.h"

#include "kernels/base/error.h"
#include "src/models/detectors.h"

namespace octet {
namespace {

void require_best_weights(const Config& config) {
  REQUIRE_USAGE(config.train.patience == 0 || config.checkpoint.best, "set checkpoint.best: true",
                "train.patience needs the best evaluation, which checkpoint.best: false does not keep");
}

// What is frozen stays as it is loaded, and random layers would give random features for good.
void require_weights_of_frozen_layers(const Config& config) {
  const Config::Model& model = config.model;
  REQUIRE_USAGE(config.train.freeze.empty() || !model.initial_weights.empty(), "set model.initial_weights",
                "train.freeze is ", config.train.freeze, ", but there are no weights to freeze");
  REQUIRE_USAGE(!freezes_backbone(model) || !model.initial_weights.empty() || !model.initial_backbone.empty(),
                "set model.initial_backbone to weights of the classification network, or model.norm: batch and "
                "model.freeze_stages: 0",
                model.freeze_stages > 0 ? say("model.freeze_stages is ", model.freeze_stages) : "model.norm is frozen",
                ", but there are no weights to freeze");
}

}  // namespace

void require_what_training_needs(const Config& config) {
  require_weights_of_frozen_layers(config);
  require_best_weights(config);
}

}  // namespace octet
