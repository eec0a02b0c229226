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

// Loads `file` through the dynamic loader, once per process, and never unloads it. UsageError: the file is missing or
// is not NCCL.
NcclLibrary load_nccl(const char* file);
// UsageError: NCCL is older than 2.14, the first version with non-blocking communicators.
void require_nccl_version(const NcclLibrary&);

std::unique_ptr<DeviceCollectives> make_nccl_collectives(const NcclLibrary&, Transport&, void* stream, double timeout,
                                                         std::function<void()> before_end);

}  // namespace octet
