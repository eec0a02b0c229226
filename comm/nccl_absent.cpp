// Replaces NCCL in a build without <nccl.h>.
#include "comm/nccl.h"
#include "kernels/base/error.h"

namespace octet {

std::string nccl_obstacle() { return "octet was built without NCCL: its header <nccl.h> was not found"; }

std::unique_ptr<DeviceCollectives> make_nccl_collectives(Transport&, void*, double, std::function<void()>&&) {
  throw UsageError(__FILE__, __LINE__, nccl_obstacle(),
                   "build octet with <nccl.h> in the folder of the CUDA headers, or set comm.transport: mpi");
}

}  // namespace octet
