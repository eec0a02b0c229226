// The functions of NCCL that octet calls. Only a build with <nccl.h> includes this file.
#pragma once
#include <nccl.h>

#include <memory>
#include <string>

#include "comm/transport.h"

namespace octet {

#define OCTET_NCCL_FUNCTIONS(X)             \
  X(get_version, ncclGetVersion)            \
  X(get_unique_id, ncclGetUniqueId)         \
  X(init, ncclCommInitRankConfig)           \
  X(finalize, ncclCommFinalize)             \
  X(destroy, ncclCommDestroy)               \
  X(abort, ncclCommAbort)                   \
  X(get_async_error, ncclCommGetAsyncError) \
  X(error_string, ncclGetErrorString)       \
  X(last_error, ncclGetLastError)           \
  X(all_reduce, ncclAllReduce)              \
  X(all_gather, ncclAllGather)              \
  X(send, ncclSend)                         \
  X(receive, ncclRecv)                      \
  X(group_start, ncclGroupStart)            \
  X(group_end, ncclGroupEnd)

struct NcclLibrary {
#define OCTET_DECLARE(member, function) decltype(&function) member = nullptr;
  OCTET_NCCL_FUNCTIONS(OCTET_DECLARE)
#undef OCTET_DECLARE
};

// Loads the library `file` with the dynamic loader and never unloads it. Functions that the library lacks stay null.
// UsageError: the library cannot be loaded.
NcclLibrary load_nccl(const char* file);
// UsageError: the version is below 2.14, the first one that starts without blocking.
void require_nccl_version(const NcclLibrary&);

std::unique_ptr<DeviceCollectives> make_nccl_collectives(const NcclLibrary&, Transport&, void* stream, double timeout,
                                                         std::function<void()>&& before_end);

}  // namespace octet
