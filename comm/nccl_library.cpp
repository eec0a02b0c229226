#include "comm/nccl_library.h"

#include <dlfcn.h>

#include "comm/nccl.h"
#include "kernels/base/error.h"

namespace octet {
namespace {

constexpr const char* library_file = "libnccl.so.2";
constexpr const char* fix =
    "install NCCL 2.14 or newer where the loader finds it (LD_LIBRARY_PATH), or set comm.transport: mpi";

}  // namespace

NcclLibrary load_nccl(const char* file) {
  void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  const char* const reason = handle == nullptr ? dlerror() : nullptr;
  REQUIRE_USAGE(handle != nullptr, fix, "NCCL cannot be loaded: ", reason ? reason : file);
  NcclLibrary library;
#define OCTET_FIND(member, function) \
  library.member = reinterpret_cast<decltype(library.member)>(dlsym(handle, #function));
  OCTET_NCCL_FUNCTIONS(OCTET_FIND)
#undef OCTET_FIND
  return library;
}

void require_nccl_version(const NcclLibrary& library) {
  int version = 0;
  REQUIRE_USAGE(library.get_version != nullptr && library.get_version(&version) == ncclSuccess, fix,
                "the library that was loaded for NCCL does not tell its version");
  const int minor = version / 100 % 100, major = version / 10000;  // since 2.9; 2.8.4 was 2804
  REQUIRE_USAGE(version >= NCCL_VERSION(2, 14, 0), fix, "this machine's NCCL is ",
                version < 10000 ? say("older than 2.9") : say(major, ".", minor, ".", version % 100),
                "; octet needs 2.14, which starts without blocking");
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
                                                         std::function<void()>&& before_end) {
  return make_nccl_collectives(load_nccl(library_file), transport, stream, timeout, std::move(before_end));
}

}  // namespace octet
