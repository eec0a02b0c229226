// What a rank would compute and hold, planned without memory: for `octet plan`, and for mistakes to show before step 1.
#pragma once
#include "comm/transport.h"
#include "src/graph/plan.h"
#include "src/quant/policy.h"

namespace octet {

struct DryPlan {
  // UsageError: what the network, the policy, the batch and the images do not allow together. height, width: of the
  // images, in pixels; batch: of one rank.
  DryPlan(const Config&, int64_t height, int64_t width, int64_t batch, const PlanOptions&);

  std::unique_ptr<Policy> policy;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Backend> backend;
  ClipCoordinator clips;
  Parameters parameters;
  Plan plan;
};

}  // namespace octet
