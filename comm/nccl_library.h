// The functions of NCCL that octet calls. Only files of a build with <nccl.h> include this.
#pragma once
#include <nccl.h>

#include <memory>
#include <string>

#include "comm/device_collectives.h"
#include "comm/transport.h"

namespace octet {

struct NcclLibrary {
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init = nullptr;
  decltype(&ncclCommFinalize) finalize = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommGetAsyncError) get_async_error = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
};

// Loads `file` as the dynamic loader finds it, once for the process, and never unloads it. UsageError: it is missing,
// or no NCCL.
NcclLibrary load_nccl(const char* file);
// UsageError below 2.14, the first that starts without blocking.
void require_nccl_version(const NcclLibrary&);

std::unique_ptr<DeviceCollectives> make_nccl_collectives(const NcclLibrary&, Transport&, void* stream, double timeout,
                                                         std::function<void()> before_end);

}  // namespace octet
