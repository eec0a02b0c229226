// Batches on their way to the device while it computes.
#include <cstring>

#include "kernels/cuda/cuda_backend.h"

namespace octet::cuda {
namespace {

class CudaUpload final : public Upload {
 public:
  CudaUpload(size_t bytes, Stream main)
      : bytes_(bytes),
        main_(main),
        side_(make_stream(nullptr)),
        arrived_(make_event()),
        taken_(make_event()),
        host_(allocate_pinned(bytes)),
        device_(allocate_device(bytes)) {}
  ~CudaUpload() override {
    destroy_stream(side_);  // waits
    destroy_event(arrived_);
    destroy_event(taken_);
    release_pinned(host_);
    release(device_);
  }
  CudaUpload(const CudaUpload&) = delete;
  CudaUpload& operator=(const CudaUpload&) = delete;

  void begin(const void* from) override {
    synchronize(side_);  // the upload before this one, long over
    std::memcpy(host_, from, bytes_);
    wait_for(taken_, side_);
    copy_to_device(device_, host_, bytes_, side_);
    record(arrived_, side_);
  }
  void finish(void* to) override {
    wait_for(arrived_, main_);
    copy_on_device(to, device_, bytes_, main_);
    record(taken_, main_);
  }

 private:
  const size_t bytes_;
  const Stream main_, side_;
  const Event arrived_, taken_;
  void *const host_, *const device_;
};

}  // namespace

std::unique_ptr<Upload> CudaBackend::make_upload(size_t bytes) { return std::make_unique<CudaUpload>(bytes, stream_); }

}  // namespace octet::cuda
