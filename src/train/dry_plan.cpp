#include "src/train/dry_plan.h"

#include "comm/transports.h"
#include "src/data/loader.h"
#include "src/graph/models.h"

namespace octet {
namespace {

Graph model_of(const Config& config) {
  const int64_t side = image_side(config.data);
  return make_model(config.model, side, side, float(config.train.label_smoothing));
}

PlanOptions without_memory(PlanOptions options) {
  options.allocate = false;
  return options;
}

}  // namespace

DryPlan::DryPlan(const Config& config, int64_t ranks, const PlanOptions& options)
    : policy(make_policy(config)),
      transport(make_self_transport()),
      backend(make_reference_backend()),
      clips(config.policy, *transport, *backend),
      plan(model_of(config), *policy, *backend, &clips, batch_of_rank(config, ranks), without_memory(options)) {}

int64_t batch_of_rank(const Config& config, int64_t ranks) {
  REQUIRE_USAGE(config.data.batch % ranks == 0, "choose a data.batch that the number of ranks divides", config.file,
                ": data.batch ", config.data.batch, " does not divide among ", ranks, " ranks");
  return config.data.batch / ranks;
}

}  // namespace octet
