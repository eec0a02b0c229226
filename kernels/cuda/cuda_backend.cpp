// Memory, the loss, the optimizer and the pools; convolutions and encodings have files of their own.
#include "kernels/cuda/cuda_backend.h"

#include <utility>
#include <vector>

#include "kernels/shared/checks.h"

namespace octet {
namespace cuda {
namespace {

class DeviceBuffer final : public Buffer {
 public:
  DeviceBuffer(size_t bytes, Stream stream) : bytes_(bytes), data_(allocate_device(bytes)) {
    fill_zero(data_, bytes, stream);
  }
  ~DeviceBuffer() override { release(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  void* data() override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  size_t bytes_;
  void* data_;
};

void require_real(Tensor tensor, const char* what) {
  REQUIRE(is_real(tensor.dtype), "give f32 or bf16", what, " is codes");
}
bool is_bf16(const Into& into) { return into.tensor.dtype == DType::bf16; }

}  // namespace

void* DeviceScratch::get_bytes(size_t bytes) {
  if (bytes > bytes_) {
    release(memory_);  // waits for the kernels that use it
    memory_ = nullptr;
    bytes_ = 0;
    memory_ = allocate_device(bytes);
    bytes_ = bytes;
  }
  return memory_;
}

CudaBackend::CudaBackend(const CudaOptions& options, std::unique_ptr<LibraryConvolution> library)
    : device_(open_device(options.device)),
      clock_(options.check_every_kernel ? std::make_unique<KernelClock>() : nullptr),
      stream_(make_stream(clock_.get())),
      library_(std::move(library)),
      records_(options.record && !options.check_every_kernel) {
  if (options.real != RealConvolution::library || library_ != nullptr) return;
  std::string missing;
  library_ = make_cudnn_convolution(options.device, device_, stream_, missing);
  note_ = library_ != nullptr ? "convolutions by " + library_->name()
                              : "convolutions by octet's fixed-order kernels, slowly: " + missing;
}
CudaBackend::~CudaBackend() {
  library_.reset();  // it uses the stream
  destroy_stream(stream_);
}

std::string CudaBackend::isa() const { return say("sm_", device_.major, device_.minor); }

std::unique_ptr<Buffer> CudaBackend::allocate(size_t bytes) { return std::make_unique<DeviceBuffer>(bytes, stream_); }

size_t CudaBackend::scratch_bytes() const {
  size_t sum = library_ != nullptr ? library_->scratch_bytes() : 0;
  for (const DeviceScratch* scratch : {&from_, &weights_, &partial_, &chunk_moments_, &items_, &ranges_, &coefficients_,
                                       &sums_, &row_losses_, &state_})
    sum += scratch->bytes();
  return sum;
}

void CudaBackend::to_host(void* to, const void* from, size_t bytes) { copy_to_host(to, from, bytes, stream_); }
void CudaBackend::to_device(void* to, const void* from, size_t bytes) { copy_to_device(to, from, bytes, stream_); }
void CudaBackend::synchronize() { cuda::synchronize(stream_); }

void CudaBackend::run(int number, const StepState& state, const std::function<void()>& work) {
  Program& program = programs_[number];
  if (!records_ || !program.seen) {  // the first time scratch memory grows
    program.seen = true;
    work();
    return;
  }
  now_ = state;
  copy_to_device(state_.get<StepState>(1), &now_, sizeof now_, stream_);
  if (!program.recording || program.scratch_bytes != scratch_bytes()) {
    program.scratch_bytes = scratch_bytes();
    begin_recording(stream_);
    recording_ = true;
    try {
      work();
    } catch (...) {
      forget_programs();
      throw;
    }
    recording_ = false;
    program.recording = end_recording(stream_);
  }
  program.recording.play(stream_);
}

void CudaBackend::forget_programs() {
  if (std::exchange(recording_, false)) abandon_recording(stream_);
  for (auto& [number, program] : programs_) program.recording = {};
}

StepKey CudaBackend::of_step(const RngKey& key) const {
  if (!recording_) return {key};
  REQUIRE(key.step == now_.step && key.first == now_.first_sample * key.per_sample,
          "give the state of the step that runs", "a random key of step ", key.step, " and element ", key.first,
          " in a program that is recorded for step ", now_.step, " and sample ", now_.first_sample);
  return {key, state_.data<StepState>()};
}

void CudaBackend::update_running(Moments batch, int64_t count, float momentum, Tensor mean, Tensor variance) {
  launch_update_running(batch, count, momentum, mean.f32(), variance.f32(), mean.elements(), stream_);
}

void CudaBackend::pool_forward(const PoolProblem& problem, QTensor x, QTensor y) {
  REQUIRE(x.values.shape == problem.x && y.values.shape == problem.y && x.real() == y.real() &&
              x.values.dtype == y.values.dtype,
          "give tensors of the problem's shapes and one type", "a pool's tensors do not fit its problem");
  REQUIRE(problem.pad >= 0 && 2 * problem.pad <= problem.kernel, "pad at most half of the kernel", "a pool of ",
          problem.kernel, "x", problem.kernel, " with padding ", problem.pad, " has windows outside of the image");
  launch_pool_forward(problem, x.values.data, x.values.dtype, x.scale, y.values.data, y.scale, nullptr, stream_);
}

void CudaBackend::pool_backward(const PoolProblem& problem, QTensor x, QTensor, Tensor dy, Into dx) {
  REQUIRE(dx.tensor.shape == problem.x && dy.shape == problem.y, "give tensors of the problem's shapes",
          "a pool's tensors do not fit its problem");
  require_real(dy, "a pool's dy");
  require_real(dx.tensor, "a pool's dx");
  REQUIRE(problem.kernel <= 256, "choose a smaller kernel", "a pool of ", problem.kernel, "x", problem.kernel);
  uint16_t* choices = nullptr;
  if (problem.max) {
    choices = partial_.get<uint16_t>(problem.y.elements());
    launch_pool_forward(problem, x.values.data, x.values.dtype, nullptr, nullptr, nullptr, choices, stream_);
  }
  launch_pool_backward(problem, choices, dy.data, dy.dtype, dx.tensor.data, is_bf16(dx), dx.add, stream_);
}

void CudaBackend::global_pool_forward(QTensor x, Tensor y) {
  const Shape from = x.values.shape;
  REQUIRE(y.shape == (Shape{from.n, 1, 1, from.c}) && y.dtype == DType::f32, "give an f32 output of (N, 1, 1, C)",
          "a global pool's output has another shape or type");
  launch_global_pool_forward(from, x.values.data, x.values.dtype, x.scale, y.f32(), stream_);
}

void CudaBackend::global_pool_backward(Tensor dy, Into dx) {
  const Shape to = dx.tensor.shape;
  REQUIRE(dy.shape == (Shape{to.n, 1, 1, to.c}), "give an error of (N, 1, 1, C)", "a global pool's shapes differ");
  require_real(dy, "a global pool's dy");
  require_real(dx.tensor, "a global pool's dx");
  launch_global_pool_backward(to, dy.data, dy.dtype, dx.tensor.data, is_bf16(dx), dx.add, stream_);
}

void CudaBackend::concat_forward(std::span<const QTensor> parts, QTensor y) {
  REQUIRE(parts.size() <= size_t{max_parts}, say("concatenate at most ", max_parts, " parts"), "a concatenation of ",
          parts.size(), " parts");
  std::vector<const float*> scales;
  int64_t channels = 0;
  for (const QTensor& part : parts) {
    const Shape shape = part.values.shape;
    REQUIRE(part.real() == y.real() && part.values.dtype == y.values.dtype && shape.n == y.values.shape.n &&
                shape.h == y.values.shape.h && shape.w == y.values.shape.w,
            "concatenate images of one size and one encoding", "a part does not fit the concatenation");
    scales.push_back(part.scale);
    channels += shape.c;
  }
  REQUIRE(channels == y.values.shape.c, "give an output of as many channels", "the parts have ", channels,
          " channels, the concatenation ", y.values.shape.c);
  if (!y.real()) launch_largest_scale(scales.data(), static_cast<int>(scales.size()), y.scale, stream_);
  int first = 0;
  for (const QTensor& part : parts) {
    const int own = static_cast<int>(part.values.shape.c);
    launch_concat_part(part.values.data, part.values.dtype, part.scale, y.scale, y.values.shape.pixels(), own,
                       static_cast<int>(channels), first, y.values.data, stream_);
    first += own;
  }
}

void CudaBackend::concat_backward(Tensor dy, std::span<const Into> parts) {
  int64_t first = 0;
  for (const Into& part : parts) {
    const int64_t own = part.tensor.shape.c;
    if (part)
      launch_split_part(dy.data, dy.dtype, dy.shape.pixels(), static_cast<int>(own), static_cast<int>(dy.shape.c),
                        static_cast<int>(first), part.tensor.data, is_bf16(part), part.add, stream_);
    first += own;
  }
  REQUIRE(first == dy.shape.c, "give the parts that were concatenated", "the parts have ", first,
          " channels, the concatenation ", dy.shape.c);
}

void CudaBackend::dropout_forward(QTensor x, float rate, const RngKey& key, QTensor y) {
  check_dropout_forward(x, rate, y);
  launch_dropout_forward(x.values.data, x.values.dtype, x.scale, x.values.elements(), rate, of_step(key), y.values.data,
                         y.scale, stream_);
}

void CudaBackend::dropout_backward(Tensor dy, float rate, const RngKey& key, Into dx) {
  check_dropout(dx.tensor.shape, dy.shape, rate);
  require_real(dx.tensor, "dropout's gradient");
  launch_dropout_backward(dy.data, dy.dtype, dy.elements(), rate, of_step(key), dx.tensor.data, is_bf16(dx), dx.add,
                          stream_);
}

void CudaBackend::softmax_loss(Tensor logits, const int32_t* labels, float smoothing, float gradient_scale,
                               Tensor d_logits, LossReport* report) {
  const int64_t rows = logits.shape.n, classes = logits.shape.c;
  launch_softmax_loss(logits.f32(), labels, rows, classes, smoothing, gradient_scale, sums_.get<double>(rows * classes),
                      d_logits ? d_logits.f32() : nullptr, row_losses_.get<RowLoss>(rows), report, stream_);
}

void CudaBackend::sgd_update(const SgdProblem& problem, Tensor w, Tensor gradient, Tensor velocity,
                             const float* lr_scale) {
  REQUIRE(!recording_ || problem.learning_rate == now_.learning_rate, "give the state of the step that runs",
          "a learning rate of ", problem.learning_rate, " in a program that is recorded for ", now_.learning_rate);
  launch_sgd(problem, recording_ ? state_.data<StepState>() : nullptr, lr_scale, w.f32(), gradient.f32(),
             velocity.f32(), w.elements(), stream_);
}

void CudaBackend::find_nonfinite(Tensor tensor, int32_t* found) {
  fill_zero(found, sizeof *found, stream_);
  if (is_real(tensor.dtype)) launch_find_nonfinite(tensor.data, tensor.dtype, tensor.elements(), found, stream_);
}

}  // namespace cuda

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  return std::make_unique<cuda::CudaBackend>(options);
}
bool built_with_cuda() { return true; }

}  // namespace octet
