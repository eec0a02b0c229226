// Streams beside the backend's own: batches travel to the device on one, the gradient exchange runs on another.
#include <cstring>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/launch.h"

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
    synchronize(side_);  // for the previous upload, which usually ended long ago
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

class CudaSideStream final : public SideStream {
 public:
  CudaSideStream(const CudaBackend& backend, Stream main)
      : backend_(backend), main_(main), side_(make_stream(main.clock)), mark_(make_event()) {}
  ~CudaSideStream() override {
    destroy_event(mark_);
    destroy_stream(side_);
  }
  CudaSideStream(const CudaSideStream&) = delete;
  CudaSideStream& operator=(const CudaSideStream&) = delete;

  void* handle() override { return side_.handle; }
  void follow() override {
    record(mark_, main_);
    wait_for(mark_, side_);
  }
  void join() override {
    record(mark_, side_);
    wait_for(mark_, main_);
  }
  bool backend_idle() override { return idle(main_); }
  std::unique_ptr<BlockCodec> make_codec(CodecProblem problem) override {
    return cuda::make_codec(problem, backend_, side_);
  }

 private:
  const CudaBackend& backend_;
  const Stream main_, side_;
  const Event mark_;
};

}  // namespace

std::unique_ptr<Upload> CudaBackend::make_upload(size_t bytes) { return std::make_unique<CudaUpload>(bytes, stream_); }
std::unique_ptr<SideStream> CudaBackend::make_side_stream() { return std::make_unique<CudaSideStream>(*this, stream_); }

}  // namespace octet::cuda
