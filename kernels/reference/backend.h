// Every operation as plain loops: the oracle that other backends are compared with, and the base class from which
// CpuBackend inherits what is not worth a kernel. Integer sums are exact; real sums are taken in double.
#pragma once
#include "kernels/backend.h"

namespace octet {

class ReferenceBackend : public Backend {
 public:
  std::string name() const override { return "reference"; }
  std::string isa() const override { return "scalar"; }
  // Zeroed memory.
  std::unique_ptr<Buffer> allocate(size_t bytes) override;
  size_t scratch_bytes() const override { return 0; }
  void run(int /*program*/, const StepState& state, const std::function<void()>& work) override {
    now_ = state;
    work();
  }
  void on_host(std::span<const Tensor> reads, std::span<const Tensor> writes, const HostWork& work) override {
    work(reads, writes, now_);
  }

  void update_running(Moments, int64_t count, float momentum, Tensor running_mean, Tensor running_variance) override;
  void sgd_update(const SgdProblem&, Tensor w, Tensor gradient, Tensor velocity, const float* lr_scale) override;
  void move_average(float share, Tensor value, Tensor average) override;
  void add_fixed(Tensor values, int64_t* sums, bool add, int32_t* beyond) override;
  void read_fixed(const int64_t* sums, Tensor values) override;
  void find_nonfinite(Tensor, int32_t* found) override;

 protected:
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

 private:
  StepState now_;
};

}  // namespace octet
