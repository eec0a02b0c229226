// NCCL sends data from GPU to GPU, not through host memory. octet loads the library only when a job asks for NCCL, so
// octet also starts on machines without the library. A build without <nccl.h> has nccl_absent.cpp instead of nccl.cpp.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "comm/transport.h"

namespace octet {

// Why this process cannot use NCCL; empty when it can.
std::string nccl_obstacle();

// Collective. stream: the cudaStream_t of this rank's GPU, on which all calls work. timeout: seconds that a call may
// take, 0: no limit. before_end: called before NCCL ends, also after an error. It must drop every CUDA graph of the
// stream, since NCCL would wait for these graphs without end. UsageError: NCCL cannot be used, or two ranks share one
// GPU.
std::unique_ptr<DeviceCollectives> make_nccl_collectives(Transport&, void* stream, double timeout,
                                                         std::function<void()>&& before_end);

}  // namespace octet
