// Memory and recorded programs.
#include "kernels/cuda/backend.h"

#include <utility>

namespace octet {
namespace cuda {
namespace {

class DeviceBuffer final : public Buffer {
 public:
  DeviceBuffer(size_t bytes, Stream stream) {
    fill_zero(memory_.get<std::byte>(static_cast<int64_t>(bytes)), bytes, stream);
  }
  void* data() override { return memory_.data<void>(); }
  size_t bytes() const override { return memory_.bytes(); }

 private:
  DeviceScratch memory_;
};

}  // namespace

CudaBackend::CudaBackend(const CudaOptions& options, std::unique_ptr<LibraryConvolution> library, int64_t slice_bytes)
    : device_(open_device(options.device, options.share)),
      clock_(options.check_every_kernel ? std::make_unique<KernelClock>() : nullptr),
      stream_(make_stream(clock_.get())),
      library_(std::move(library)),
      records_(options.record && !options.check_every_kernel),
      slice_bytes_(slice_bytes) {
  if (options.real != RealConvolution::library || library_ != nullptr) return;
  std::string missing;
  library_ = make_cudnn_convolution(device_.index, device_, stream_, missing);
  note_ = library_ != nullptr ? "convolutions by " + library_->name()
                              : "convolutions by octet's fixed-order kernels, slowly: " + missing;
}
CudaBackend::~CudaBackend() {
  library_.reset();         // it uses the stream
  destroy_stream(stream_);  // waits: a program may still be playing
}

std::string CudaBackend::isa() const { return say("sm_", device_.major, device_.minor); }

std::unique_ptr<Buffer> CudaBackend::allocate(size_t bytes) {
  transposed_.clear();  // the address of new memory may be one of them
  return std::make_unique<DeviceBuffer>(bytes, stream_);
}

size_t CudaBackend::scratch_bytes() const {
  size_t sum = library_ != nullptr ? library_->scratch_bytes() : 0;
  for (const DeviceScratch* scratch :
       {&from_,    &weights_,   &partial_,         &chunk_moments_,   &items_,           &totals_,    &moment_totals_,
        &tickets_, &norm_sums_, &transposed_room_, &ranges_,          &coefficients_,    &sums_,      &row_losses_,
        &regions_, &state_,     &pixel_weights_,   &pixel_constants_, &pixel_gradients_, &pixel_sums_})
    sum += scratch->bytes();
  return sum;
}

void CudaBackend::to_host(void* to, const void* from, size_t bytes) { copy_to_host(to, from, bytes, stream_); }
void CudaBackend::to_device(void* to, const void* from, size_t bytes) {
  forget_transposed(to, bytes);
  copy_to_device(to, from, bytes, stream_);
}
void CudaBackend::synchronize() { cuda::synchronize(stream_); }

void CudaBackend::run(int number, const StepState& state, const std::function<void()>& work) {
  now_ = state;
  norm_sums_wait_ = false;
  if (number == unrecorded) return work();
  Program& program = programs_[number];
  // Not recorded the first time: scratch memory grows, and CUDA loads kernels, which it may not do while it records.
  if (!records_ || !program.seen) {
    program.seen = true;
    work();
    return;
  }
  copy_to_device(state_.get<StepState>(1), &now_, sizeof now_, stream_);
  if (!program.recording || program.scratch_bytes != recorded_bytes()) record_program(program, work);
  program.recording.play(stream_);
}

void CudaBackend::record_program(Program& program, const std::function<void()>& work) {
  forget(program);
  program.scratch_bytes = recorded_bytes();
  begin_recording(stream_);
  recording_ = &program;
  try {
    work();
  } catch (...) {
    forget_programs();
    throw;
  }
  recording_ = nullptr;
  program.recording = end_recording(stream_);
}

void CudaBackend::forget(Program& program) {
  if (!program.host_calls.empty()) cuda::synchronize(stream_);  // the program may still be playing
  program.recording = {};
  program.host_calls.clear();
}

void CudaBackend::forget_programs() {
  if (std::exchange(recording_, nullptr) != nullptr) abandon_recording(stream_);
  for (auto& [number, program] : programs_) forget(program);
}

StepKey CudaBackend::of_step(const RngKey& key) const {
  if (recording_ == nullptr) return {key};
  REQUIRE(key.step == now_.step && key.first == (now_.first_sample + key.within) * key.per_sample,
          "give the state of the step that runs", "a random key of step ", key.step, " and element ", key.first,
          " in a program that is recorded for step ", now_.step, " and sample ", now_.first_sample);
  return {key, state_.data<const StepState>()};
}

}  // namespace cuda

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  return std::make_unique<cuda::CudaBackend>(options);
}
bool built_with_cuda() { return true; }

}  // namespace octet
