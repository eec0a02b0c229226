#include "src/train/dry_plan.h"

#include "comm/transport.h"
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

}  // namespace octet
