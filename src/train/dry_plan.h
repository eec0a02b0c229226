// What a rank would compute and hold, planned without memory: for `octet plan`, and for mistakes to show before a first
// step.
#pragma once
#include "comm/transport.h"
#include "src/graph/plan.h"
#include "src/quant/policy.h"

namespace octet {

struct DryPlan {
  // UsageError: what the network, the policy, the batch and the images do not allow together.
  DryPlan(const Config&, int64_t ranks, const PlanOptions&);

  std::unique_ptr<Policy> policy;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Backend> backend;
  ClipCoordinator clips;
  Plan plan;
};

// UsageError: a data.batch that does not divide among the ranks.
int64_t batch_of_rank(const Config&, int64_t ranks);

}  // namespace octet
