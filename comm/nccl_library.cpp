#include "comm/nccl_library.h"

#include <dlfcn.h>

#include "comm/nccl.h"
#include "kernels/base/error.h"

namespace octet {
namespace {

constexpr const char* library_file = "libnccl.so.2";
constexpr const char* how_to_mend =
    "install NCCL 2.14 or newer where the loader finds it (LD_LIBRARY_PATH), or set comm.transport: mpi";

}  // namespace

NcclLibrary load_nccl(const char* file) {
  void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  const char* const reason = handle == nullptr ? dlerror() : nullptr;
  REQUIRE_USAGE(handle != nullptr, how_to_mend, "NCCL cannot be loaded: ", reason ? reason : file);
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
  };
  NcclLibrary library;
  find(library.get_version, "ncclGetVersion");
  find(library.get_unique_id, "ncclGetUniqueId");
  find(library.init, "ncclCommInitRankConfig");
  find(library.finalize, "ncclCommFinalize");
  find(library.destroy, "ncclCommDestroy");
  find(library.abort, "ncclCommAbort");
  find(library.get_async_error, "ncclCommGetAsyncError");
  find(library.error_string, "ncclGetErrorString");
  find(library.last_error, "ncclGetLastError");
  find(library.all_reduce, "ncclAllReduce");
  find(library.all_gather, "ncclAllGather");
  find(library.send, "ncclSend");
  find(library.receive, "ncclRecv");
  find(library.group_start, "ncclGroupStart");
  find(library.group_end, "ncclGroupEnd");
  return library;
}

void require_nccl_version(const NcclLibrary& library) {
  int version = 0;
  REQUIRE_USAGE(library.get_version != nullptr && library.get_version(&version) == ncclSuccess, how_to_mend,
                "the NCCL library does not report its version");
  const int minor = version / 100 % 100, major = version / 10000;  // encoding since 2.9; 2.8.4 was 2804
  REQUIRE_USAGE(version >= NCCL_VERSION(2, 14, 0), how_to_mend, "this machine's NCCL is ",
                version < 10000 ? say("older than 2.9") : say(major, ".", minor, ".", version % 100),
                "; octet needs 2.14 for non-blocking calls");
}

std::string nccl_obstacle() {
  try {
    require_nccl_version(load_nccl(library_file));
    return {};
  } catch (const UsageError& error) {
    return error.what();
  }
}

std::unique_ptr<DeviceCollectives> make_nccl_collectives(Transport& transport, void* stream, double timeout,
                                                         std::function<void()> before_end) {
  return make_nccl_collectives(load_nccl(library_file), transport, stream, timeout, std::move(before_end));
}

}  // namespace octet
