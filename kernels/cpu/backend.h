// The backend of CPUs. Whatever it overrides gives the same bits on every instruction set and with any number of
// threads; the rest is the reference.
#pragma once
#include <memory>

#include "kernels/cpu/convolution.h"
#include "kernels/cpu/passes.h"
#include "kernels/cpu/scratch.h"
#include "kernels/reference/backend.h"

namespace octet::cpu {

class CpuBackend final : public ReferenceBackend {
 public:
  // int8: convolutions of codes other than the instruction set's own.
  explicit CpuBackend(const CpuOptions&, std::unique_ptr<Convolution> int8 = nullptr);
  std::string name() const override { return "cpu"; }
  std::string isa() const override { return name_of(options_.isa); }
  // Zeroed memory, in huge pages where it is large; each thread touches its share first.
  std::unique_ptr<Buffer> allocate(size_t bytes) override;
  size_t scratch_bytes() const override;
  size_t free_bytes() const override { return options_.memory; }
  LoopLog* loops() override { return &loops_; }

  void sgd_update(std::span<const SgdStep>) override;
  void adamw_update(std::span<const AdamWStep>) override;
  void move_average(float share, Tensor value, Tensor average) override;
  void add_fixed(Tensor values, int64_t* sums, bool add, int32_t* beyond) override;
  void read_fixed(const int64_t* sums, Tensor values) override;
  void find_nonfinite(Tensor, int32_t* found) override;

 private:
  OCTET_OPERATIONS(OCTET_COMPUTES)
  void compute_all(std::span<const QuantizeCall>) override;
  std::unique_ptr<ReadyConvolution> keep(const ConvRequantizeCall&) override;

  Convolution& convolution_of(const QTensor& operand) { return operand.real() ? *real_ : *codes_; }

  CpuOptions options_;
  LoopLog loops_;
  const Threads threads_;
  const Passes& passes_;
  std::unique_ptr<Convolution> codes_, real_;  // convolutions of int8 codes and of real operands
  Scratch coefficients_, sums_;                // of one affine step
  std::vector<Scratch> packed_;                // one per thread: what convolutions to codes read
};

}  // namespace octet::cpu
