// Everything that a device must be able to do. ReferenceBackend consists of plain loops, and tests compare the other
// backends with it. CpuBackend overrides the operations that take time. Calls never allocate what the caller could have
// planned. A backend's own scratch memory grows on first use, and scratch_bytes() gives its size.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/loop_log.h"
#include "kernels/operations.h"
#include "kernels/side_stream.h"
#include "kernels/updates.h"

namespace octet {

// The values that differ from step to step. A device that repeats a recorded program reads them in each step.
struct StepState {
  uint32_t step = 0;          // of every RngKey
  float learning_rate = 0;    // of every update
  uint64_t first_sample = 0;  // of this rank in the global batch, see RngKey
  AdamWCorrections corrections = {};
};

// Work of the host in the device's order. The tensors are in the host's memory; a tensor of both lists is in one place.
// The work writes all elements of `writes`. It must not throw or call the backend: a device that repeats a recorded
// program calls it for each repetition, from a thread of its own. What it refers to lives until forget_programs().
using HostWork =
    std::function<void(std::span<const Tensor> reads, std::span<const Tensor> writes, const StepState& now)>;

// Memory of a device, freed with this object. It is aligned to at least 64 bytes and uses huge pages where they help.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() = 0;
  virtual size_t bytes() const = 0;
};

// Copies data to the device while the device computes.
class Upload {
 public:
  virtual ~Upload() = default;
  virtual void begin(const void* from) = 0;  // `from` may change after the call
  virtual void finish(void* to) = 0;         // calls of the backend after this one find the data at `to`, on the device
};

struct KernelTime {
  std::string name;
  int64_t calls = 0;
  double seconds = 0;
};

// A convolution of an integer network, made ready once: its constants do not change.
class ReadyConvolution {
 public:
  virtual ~ReadyConvolution() = default;
  // As conv_requantize(). Shapes and types are those with which it was made.
  virtual void run(Tensor x, Tensor residual, Tensor y) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;  // "cpu"
  virtual std::string isa() const = 0;   // "avx512_vnni"
  // A note for the log: which library computes, or that one is missing. Empty: there is nothing to note.
  virtual std::string note() const { return {}; }
  // Memory of the device, zeroed. All pointers given to the calls below point into such memory. The host reads and
  // writes this memory by to_host() and to_device(), or directly if host_memory() is true.
  virtual std::unique_ptr<Buffer> allocate(size_t bytes) = 0;
  virtual size_t scratch_bytes() const = 0;
  // Bytes that may still be allocated, or of a CPU, that it was given; SIZE_MAX: not known.
  virtual size_t free_bytes() const { return SIZE_MAX; }
  virtual bool host_memory() const { return true; }
  // Copies from and to the device's memory, after all earlier calls. to_host() waits until the copy is done.
  virtual void to_host(void* to, const void* from, size_t bytes) {
    std::copy_n(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to));
  }
  virtual void to_device(void* to, const void* from, size_t bytes) {
    std::copy_n(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to));
  }
  // Waits until all earlier calls are done.
  virtual void synchronize() {}
  // Runs `work`, which calls this backend and must not wait unless it is unrecorded. program: a small number; `work`
  // must make the same calls each time for the same number. A device may record the calls the second time. From then on
  // it repeats the record and does not call `work`. What differs between steps then comes from the state and from the
  // device's memory. Calls of the program `unrecorded` are never recorded, and may differ each time.
  static constexpr int unrecorded = -1;
  virtual void run(int program, const StepState&, const std::function<void()>& work) = 0;
  // Brings `reads` to the host, calls the work, and brings `writes` to the device, after the calls before this one and
  // before those after it. The work gets the state that run() was last given.
  virtual void on_host(std::span<const Tensor> reads, std::span<const Tensor> writes, const HostWork&) = 0;
  // Drops all records, also an unfinished one. The memory that the records use may then be freed.
  virtual void forget_programs() {}
  // Time of each kernel since the start, if the backend waits for every kernel (CudaOptions::check_every_kernel).
  virtual std::vector<KernelTime> kernel_times() const { return {}; }
  // Where a CPU notes what its threads do; null: of this device nobody can tell.
  virtual LoopLog* loops() { return nullptr; }
  // A stream for work in parallel with the backend's own work; null if the host computes.
  virtual std::unique_ptr<SideStream> make_side_stream() { return nullptr; }
  virtual std::unique_ptr<Upload> make_upload(size_t /*bytes*/) { return nullptr; }

  // quantize(const QuantizeCall&) and the other operations of operations.h. Each checks its arguments, then computes.
  // Labels of losses are in the device's memory: backends of the host check them too, where a wrong one is an Error.
#define OCTET_CHECKED(operation, Call) void operation(const Call&);
  OCTET_OPERATIONS(OCTET_CHECKED)

  // Keeps the weights and the rounding of the call, which are in the host's memory, as the kernels want them. Of the
  // other tensors only shapes and types count. The backend must outlive the result.
  std::unique_ptr<ReadyConvolution> make_ready(const ConvRequantizeCall&);

  // quantize() of several tensors that share no memory.
  void quantize_all(std::span<const QuantizeCall>);
  // Of norms and of parameters that share no memory.
  virtual void update_running(std::span<const RunningStep>) = 0;
  virtual void sgd_update(std::span<const SgdStep>) = 0;
  virtual void adamw_update(std::span<const AdamWStep>) = 0;
  // average += share * (value - average), both f32.
  virtual void move_average(float share, Tensor value, Tensor average) = 0;
  // sums (+)= values (f32) in fixed point, see shared/fixed_point.h. *beyond = 1 if a value does not fit, else
  // unchanged.
  virtual void add_fixed(Tensor values, int64_t* sums, bool add, int32_t* beyond) = 0;
  virtual void read_fixed(const int64_t* sums, Tensor values) = 0;  // values (f32) = sums
  // *found = 1 if an element is not finite, else 0.
  virtual void find_nonfinite(Tensor, int32_t* found) = 0;
  // Waits for the answer, and returns whether all elements are finite.
  bool all_finite(Tensor);

 protected:
#define OCTET_TO_COMPUTE(operation, Call) virtual void compute(const Call&) = 0;
  OCTET_OPERATIONS(OCTET_TO_COMPUTE)
  virtual void compute_all(std::span<const QuantizeCall> checked) {
    for (const QuantizeCall& call : checked) compute(call);
  }
  // make_ready() of a checked call. By default the constants are copied to the device, and conv_requantize() is called.
  virtual std::unique_ptr<ReadyConvolution> keep(const ConvRequantizeCall&);
};
#define OCTET_COMPUTES(operation, Call) void compute(const Call&) override;  // in the class of a backend

// The rows of the table in cpu/isa.cpp.
enum class Isa : uint8_t { scalar, avx2, avx_vnni, avx512_vnni, amx, neon_dot, neon_i8mm };
const char* name_of(Isa);
Isa isa_from_name(const std::string&);  // UsageError: the name is unknown; the message gives the known names
std::vector<std::string> isa_names();   // all known names
std::vector<Isa> available_isas();      // of this processor and operating system, the best last
Isa best_isa();

enum class RealConvolution : uint8_t {
  fixed_order,      // own kernels: the same bits on every instruction set (unquantized layers of an int8 policy)
  library,          // the fp32 policy: oneDNN, or cuDNN on a GPU; fastest, but other machines may give other bits
  chunked_float16,  // the fp8 policy: sums are FP16 (1, 6, 9), in chunks of 64; on a CPU
};
struct CpuOptions {
  Isa isa = Isa::scalar;  // must be available
  int threads = 1;
  RealConvolution real = RealConvolution::fixed_order;
  size_t memory = SIZE_MAX;  // bytes that it may allocate; what asks free_bytes() heeds them
};
struct CudaOptions {
  int device = 0;                   // the number of the GPU: the rank's place among the ranks of this machine
  bool share = false;               // the number may exceed the last GPU's: GPUs are given out again from the first on
  bool check_every_kernel = false;  // wait after each kernel, so that an error names the kernel; records nothing then
  bool record = true;               // run() records CUDA graphs
  RealConvolution real = RealConvolution::fixed_order;
};
std::unique_ptr<Backend> make_reference_backend();
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions&);
// UsageError: octet was built without CUDA, or cannot run on this machine; the message says what is missing.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions&);
bool built_with_cuda();
const char* real_convolutions();  // what computes those of the fp32 policy on CPUs

}  // namespace octet
