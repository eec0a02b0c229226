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

  void sgd_update(const SgdProblem&, Tensor w, Tensor gradient, Tensor velocity, const float* lr_scale) override;
  void move_average(float share, Tensor value, Tensor average) override;
  void add_fixed(Tensor values, int64_t* sums, bool add, int32_t* beyond) override;
  void read_fixed(const int64_t* sums, Tensor values) override;
  void find_nonfinite(Tensor, int32_t* found) override;

 private:
  void compute(const QuantizeCall&) override;
  void compute(const ConvForwardCall&) override;
  void compute(const ConvBackwardDataCall&) override;
  void compute(const ConvBackwardWeightCall&) override;
  void compute(const AffineForwardCall&) override;
  void compute(const AffineBackwardCall&) override;
  void compute(const PoolForwardCall&) override;
  void compute(const PoolBackwardCall&) override;
  void compute(const GlobalPoolForwardCall&) override;
  void compute(const GlobalPoolBackwardCall&) override;
  void compute(const RoiPoolForwardCall&) override;
  void compute(const RoiPoolBackwardCall&) override;
  void compute(const ConcatForwardCall&) override;
  void compute(const ConcatBackwardCall&) override;
  void compute(const DropoutForwardCall&) override;
  void compute(const DropoutBackwardCall&) override;
  void compute(const SoftmaxLossCall&) override;
  void compute(const SigmoidLossCall&) override;
  void compute(const BoxLossCall&) override;

  Convolution& convolution_of(const QTensor& operand) { return operand.real() ? *real_ : *codes_; }

  CpuOptions options_;
  const Passes& passes_;
  std::unique_ptr<Convolution> codes_, real_;  // convolutions of int8 codes and of real operands
  Scratch coefficients_, sums_;                // of one affine step
};

}  // namespace octet::cpu
