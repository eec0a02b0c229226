// The backend of NVIDIA GPUs. Every operation gives the bits of the CPU backend, except RealConvolution::library. Calls
// launch kernels on one stream and return; only to_host(), synchronize() and host work that is not recorded wait.
// Methods are defined beside their kernels in .cu files, those without kernels of their own in .cpp files.
#pragma once
#include <map>
#include <utility>

#include "kernels/backend.h"
#include "kernels/block_codec.h"
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/geometry.h"
#include "kernels/cuda/kernel_arguments.h"
#include "kernels/cuda/library_convolution.h"
#include "kernels/cuda/runtime.h"

namespace octet::cuda {

// Memory that grows to the largest size asked for, and then loses its contents. Work uses it in the order of the
// stream, so that one piece serves every operation in turn.
template <void* (*allocate)(size_t bytes), void (*free)(void*)>
class GrowingMemory {
 public:
  GrowingMemory() = default;
  ~GrowingMemory() { free(memory_); }
  GrowingMemory(const GrowingMemory&) = delete;
  GrowingMemory& operator=(const GrowingMemory&) = delete;
  template <class T>
  T* get(int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    if (bytes > bytes_) {
      bytes_ = 0;
      free(std::exchange(memory_, nullptr));
      memory_ = allocate(bytes);
      bytes_ = bytes;
    }
    return data<T>();
  }
  template <class T>
  T* data() const {
    return static_cast<T*>(memory_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};
using DeviceScratch = GrowingMemory<allocate_device, release>;  // release() waits for the kernels that use it
using PinnedScratch = GrowingMemory<allocate_pinned, release_pinned>;

class CudaBackend final : public Backend {
 public:
  // For tests: library computes real-valued convolutions in place of the one that the options name. slice_bytes: of the
  // first layer's gradients, as digits, that are in memory at once; few launches, and little beside the arena.
  explicit CudaBackend(const CudaOptions&, std::unique_ptr<LibraryConvolution> library = nullptr,
                       int64_t slice_bytes = int64_t{80} << 20);
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;
  std::string name() const override { return "cuda"; }
  std::string isa() const override;  // "sm_90"
  std::string note() const override { return note_; }
  std::unique_ptr<Buffer> allocate(size_t bytes) override;
  size_t scratch_bytes() const override;
  size_t free_bytes() const override { return cuda::free_bytes(); }
  bool host_memory() const override { return false; }
  void to_host(void* to, const void* from, size_t bytes) override;
  void to_device(void* to, const void* from, size_t bytes) override;
  void synchronize() override;
  void run(int program, const StepState&, const std::function<void()>& work) override;
  void on_host(std::span<const Tensor> reads, std::span<const Tensor> writes, const HostWork&) override;
  void forget_programs() override;
  // The key for a kernel of the step that runs, on this stream or a side stream.
  StepKey of_step(const RngKey&) const;
  std::vector<KernelTime> kernel_times() const override {
    return clock_ != nullptr ? clock_->times() : std::vector<KernelTime>{};
  }
  std::unique_ptr<SideStream> make_side_stream() override;
  std::unique_ptr<Upload> make_upload(size_t bytes) override;

  void update_running(std::span<const RunningStep>) override;
  void sgd_update(std::span<const SgdStep>) override;
  void adamw_update(std::span<const AdamWStep>) override;
  void move_average(float share, Tensor value, Tensor average) override;
  void add_fixed(Tensor values, int64_t* sums, bool add, int32_t* beyond) override;
  void read_fixed(const int64_t* sums, Tensor values) override;
  void find_nonfinite(Tensor, int32_t* found) override;

 private:
  OCTET_OPERATIONS(OCTET_COMPUTES)
  void compute_all(std::span<const QuantizeCall>) override;

  void convolve(const ConvForwardCall& of_one_group);
  // Runs the pass on real values if the library takes it; the pass writes one of the tensors. Moments: those of y.
  bool by_library(ConvPass, const ConvProblem&, Tensor x, Tensor w, Tensor y, bool add, std::span<const Moments>);
  // x in padded_shape(), zeros around each image; x itself where that is its shape.
  const float* padded_images(const ConvProblem&, const float* x, DeviceScratch& room);
  // Images of bytes (n, h, w, 4) in pieces of 16 bytes: two by two pixels joined, with zeros behind odd extents, or
  // each of them padded.
  const int8_t* pixel_pieces(const Tensor& images, bool joined);
  // The rows of `length` codes, each padded with zeros to a multiple of 16; `from` itself where it is one already.
  const int8_t* padded_rows(const int8_t* from, int64_t rows, int64_t length, DeviceScratch& room);
  // Transposes the codes of layers' weights, which data gradients read so. What is known to be transposed is forgotten
  // where other codes may have come.
  void transpose_all(std::span<const QuantizeCall>);
  void forget_transposed(const void* codes, size_t bytes);
  // weights (outputs, row) as (row, padded outputs), zeros beyond the outputs. row: taps * inputs.
  template <class Element>
  const Element* transposed_weights(const Element* weights, int64_t outputs, int64_t row, int64_t padded);

  // weights: as launch_gather_tiles() takes them.
  void launch_on_tensor_cores(std::span<const Gather>, const int8_t* from, DType, const int8_t* weights,
                              int64_t lane_bytes, int64_t tap_bytes, const Output&);
  void sum_for_norm(NormSums&, const Gather&, Output&);
  ExactTotals exact_totals(const Moments&, int64_t channels, NormCoefficients*);
  // Room for three coefficients of each channel. Those before are lost.
  float* norm_coefficients(int64_t channels) {
    ++coefficients_made_;
    return coefficients_.get<float>(3 * channels);
  }
  WeightOutput weight_output(const ConvBackwardWeightCall&, const WeightSplits&);
  // Memory that is zero at first, and that kernels leave so.
  template <class T>
  T* zeroed(DeviceScratch& room, int64_t count) {
    const size_t before = room.bytes();
    T* const memory = room.get<T>(count);
    if (room.bytes() != before) fill_zero(memory, room.bytes(), stream_);
    return memory;
  }

  Device device_;
  std::unique_ptr<KernelClock> clock_;  // null: kernels are not waited for
  Stream stream_;
  std::unique_ptr<LibraryConvolution> library_;  // null: real values go to the fixed-order kernels
  std::string note_;
  // What the host does in a recorded program: the work and its tensors in pinned memory.
  struct HostCall {
    HostWork work;
    std::vector<Tensor> reads, writes;
    const StepState* now = nullptr;  // in pinned memory
  };
  // A program of run(). A recording holds addresses of scratch memory, which moves when it grows, and of host calls.
  struct Program {
    std::vector<std::unique_ptr<HostCall>> host_calls;
    Recording recording;
    size_t scratch_bytes = 0;
    bool seen = false;
  };
  void record_program(Program&, const std::function<void()>& work);
  void forget(Program&);
  size_t recorded_bytes() const { return scratch_bytes() + host_tensors_.bytes(); }
  const bool records_;
  const int64_t slice_bytes_;
  std::map<int, Program> programs_;
  StepState now_;
  DeviceScratch state_;                                             // now_ on the device
  Program* recording_ = nullptr;                                    // the program that is recorded now
  PinnedScratch host_tensors_;                                      // of on_host()
  DeviceScratch from_, weights_, partial_, chunk_moments_, items_;  // of convolutions
  DeviceScratch totals_, moment_totals_, tickets_;                  // zeroed()
  DeviceScratch ranges_, coefficients_, sums_;                      // of passes
  struct Transposed {
    const int8_t* codes;
    int64_t bytes;
  };
  std::map<const void*, Transposed> transposed_;  // by the address of the codes, in transposed_room_
  DeviceScratch transposed_room_;
  int64_t coefficients_made_ = 0;  // how often: NormCoefficients::made of those that coefficients_ holds
  DeviceScratch norm_sums_;        // (chunks, 2, C) f32
  // The coefficients of the last norm for which a data gradient summed, and how often one did: its NormSums::made.
  DeviceScratch norm_gradients_;
  int64_t norm_sums_made_ = 0;
  bool norm_sums_wait_ = false;  // they are not yet taken: no data gradient may replace them
  DeviceScratch row_losses_, regions_;
  DeviceScratch pixel_weights_, pixel_constants_, pixel_gradients_, pixel_sums_;  // of the first layer
};

// The codec of the gradient exchange (kernels/block_codec.h) on a stream.
std::unique_ptr<BlockCodec> make_codec(const CodecProblem&, const CudaBackend&, Stream);

}  // namespace octet::cuda
