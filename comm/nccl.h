// NCCL connects the GPUs of the ranks without host memory. The library is loaded only if a job needs it, so octet
// starts on machines without it. A build without <nccl.h> has nccl_absent.cpp instead.
#pragma once
#include <memory>
#include <string>

#include "comm/device_collectives.h"
#include "comm/transport.h"

namespace octet {

// The reason why this process cannot use NCCL; empty if it can.
std::string nccl_obstacle();

// Collective. stream: the cudaStream_t of this rank's GPU for all calls. timeout: limit of a call in seconds; 0: none.
// before_end: called before NCCL is finalized or aborted. It must delete all CUDA graphs recorded from the stream,
// since NCCL would wait for them forever. UsageError: NCCL cannot be used, or two ranks share one GPU.
std::unique_ptr<DeviceCollectives> make_nccl_collectives(Transport&, void* stream, double timeout,
                                                         std::function<void()> before_end);

}  // namespace octet
