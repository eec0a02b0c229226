// The gradient exchange that the configuration asks for: through host memory, or from GPU to GPU.
#pragma once
#include <memory>

#include "comm/exchange.h"
#include "src/config/config.h"
#include "src/graph/parameters.h"

namespace octet {

// Collective. `comm.transport: auto` uses NCCL if all ranks have it, else MPI. UsageError: the transport that
// comm.transport names is not available.
std::unique_ptr<GradientExchange> make_gradient_exchange(const Config&, Transport&, Backend&, Parameters&);

}  // namespace octet
