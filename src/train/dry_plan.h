// A plan of one rank without memory. `octet plan` prints it. Making a DryPlan also finds wrong configurations before a
// training begins.
#pragma once
#include "comm/transport.h"
#include "src/graph/plan.h"
#include "src/quant/policy.h"

namespace octet {

struct DryPlan {
  // UsageError: the network, the policy, the batch and the image size do not fit together. height, width: of the
  // images, in pixels. batch: samples per rank.
  DryPlan(const Config&, int64_t height, int64_t width, int64_t batch, const PlanOptions&);

  std::unique_ptr<Policy> policy;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Backend> backend;
  ClipCoordinator clips;
  ActivationRanges ranges;
  Parameters parameters;
  Plan plan;
};

// UsageError: keys that belong together in a training are not all set.
void require_what_training_needs(const Config&);

}  // namespace octet
