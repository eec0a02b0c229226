// NCCL: communication between the GPUs of ranks without the memory of the host. The library is loaded when a job asks
// for it, so that octet starts on machines without it. A build without <nccl.h> has nccl_absent.cpp instead.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "comm/transport.h"

namespace octet {

// Why this process cannot use NCCL; empty when it can.
std::string nccl_obstacle();

// Collective. stream: the cudaStream_t of this rank's GPU, on which all calls work. timeout: seconds that a call may
// take, 0: no limit. before_end: called before NCCL ends, also after an error; it must drop every CUDA graph of the
// stream, for which NCCL would wait without end. UsageError: an obstacle, or two ranks on one GPU.
std::unique_ptr<DeviceCollectives> make_nccl_collectives(Transport&, void* stream, double timeout,
                                                         std::function<void()> before_end);

}  // namespace octet
