// Makes an integer network of a trained one: norms are folded into scales and biases, and no weight's code changes but
// by its sign. docs/integer-network.md has the equations.
#pragma once
#include "src/graph/plan.h"
#include "src/normalization.h"
#include "src/quant/integer_layer.h"

namespace octet {

// Whether networks that a policy trains can have integers.
bool has_integers(const Policy&);

// The constants of each convolution, linear layer and global pool of the plan's network. plan: for evaluation, with its
// weights encoded (TrainingStep::begin_evaluation()). pixels: of the images. UsageError: the policy or a layer has no
// integer form, or a range is not known; the message names the layer and the reason.
IntegerLayers fold(const Plan& plan, const Parameters&, Backend&, const Normalization& pixels);

}  // namespace octet
