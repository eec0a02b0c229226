// NCCL: how the GPUs of ranks talk, without the host's memory. The library is looked for when a job asks for it, so
// that octet starts on machines without it; a build without <nccl.h> says so (nccl_absent.cpp).
#pragma once
#include <memory>
#include <string>

#include "comm/device_collectives.h"
#include "comm/transport.h"

namespace octet {

// Why this process cannot use NCCL; empty when it can.
std::string nccl_obstacle();

// Collective. stream: the cudaStream_t of this rank's GPU that all calls work on. timeout in seconds, 0: never; what a
// call or its peers may take. before_end: called before NCCL ends, in good order or not; must drop every record of the
// stream (CUDA graphs), for which NCCL would wait without end. UsageError: an obstacle, or two ranks on one GPU.
std::unique_ptr<DeviceCollectives> make_nccl_collectives(Transport&, void* stream, double timeout,
                                                         std::function<void()> before_end);

}  // namespace octet
