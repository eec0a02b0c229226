// The gradient exchange that the configuration asks for: over the host's memory, or from GPU to GPU.
#pragma once
#include <memory>

#include "comm/exchange.h"
#include "src/config/config.h"
#include "src/graph/parameters.h"

namespace octet {

// Collective. UsageError where comm.transport cannot be had; `auto` takes NCCL where all ranks have it, else MPI.
std::unique_ptr<GradientExchange> make_gradient_exchange(const Config&, Transport&, Backend&, Parameters&);

}  // namespace octet
