// The functions of libcudnn that octet calls. The library is loaded when octet runs, so that octet starts without it.
#pragma once
#include <cudnn.h>

#include <string>

namespace octet::cuda {

struct CudnnLibrary {
  decltype(&cudnnGetVersion) version = nullptr;
  decltype(&cudnnGetErrorString) name_of_status = nullptr;
  decltype(&cudnnGetLastErrorString) last_error = nullptr;
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnDestroy) destroy = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;

  // "cuDNN 9.19.0"
  std::string name() const;
  // Throws an Error with cuDNN's message unless status is a success. what: "running a plan"
  void check(cudnnStatus_t status, const std::string& what) const;
};

// Null, with the reason in `missing`, if there is no libcudnn.so.9 or it is older than 9.11, the first with device
// descriptions. The library stays loaded until the process ends, because its kernels may run until then.
const CudnnLibrary* load_cudnn(std::string& missing);

}  // namespace octet::cuda
