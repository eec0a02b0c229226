#include "kernels/cuda/cudnn_library.h"

#include <dlfcn.h>

#include "kernels/base/error.h"

namespace octet::cuda {
namespace {

constexpr const char* file = "libcudnn.so.9";
constexpr size_t oldest = 91100;

std::string dotted(size_t version) { return say(version / 10000, ".", version / 100 % 100, ".", version % 100); }

struct Loaded {
  CudnnLibrary library;
  std::string missing;

  Loaded() {
    void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      missing = dlerror();
      return;
    }
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
      if (function == nullptr && missing.empty()) missing = say(file, " has no ", name);
    };
    find(library.version, "cudnnGetVersion");
    find(library.name_of_status, "cudnnGetErrorString");
    find(library.last_error, "cudnnGetLastErrorString");
    find(library.create, "cudnnCreate");
    find(library.destroy, "cudnnDestroy");
    find(library.set_stream, "cudnnSetStream");
    find(library.create_descriptor, "cudnnBackendCreateDescriptor");
    find(library.destroy_descriptor, "cudnnBackendDestroyDescriptor");
    find(library.set_attribute, "cudnnBackendSetAttribute");
    find(library.get_attribute, "cudnnBackendGetAttribute");
    find(library.finalize, "cudnnBackendFinalize");
    find(library.execute, "cudnnBackendExecute");
    if (missing.empty() && library.version() < oldest)
      missing = say(file, " is ", dotted(library.version()), ", older than ", dotted(oldest));
  }
};

}  // namespace

std::string CudnnLibrary::name() const { return "cuDNN " + dotted(version()); }

void CudnnLibrary::check(cudnnStatus_t status, const std::string& what) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char words[1024] = {};
  last_error(words, sizeof words);
  REQUIRE(false, "report it with these lines; without libcudnn the fp32 policy runs on octet's own kernels", what, ": ",
          name_of_status(status), " ", words);
}

const CudnnLibrary* load_cudnn(std::string& missing) {
  static const Loaded loaded;
  missing = loaded.missing;
  return missing.empty() ? &loaded.library : nullptr;
}

}  // namespace octet::cuda
