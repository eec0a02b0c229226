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

  void quantize(Tensor src, const Encoding&, const RngKey&, QTensor dst, Probe) override;
  void dequantize(QTensor src, Tensor dst) override;

  void conv_forward(const ConvProblem&, QTensor x, QTensor w, Tensor y, Moments) override;
  void conv_backward_data(const ConvProblem&, QTensor dy, QTensor w, Into dx) override;
  void conv_backward_weight(const ConvProblem&, QTensor x, QTensor dy, Into dw) override;

  void affine_forward(const AffineProblem&, Convolved x, Moments, AffineParameters, QTensor residual, const Encoding&,
                      const RngKey&, QTensor y, Probe) override;
  void affine_backward(const AffineProblem&, Convolved x, Moments, AffineParameters, QTensor residual, Tensor dy,
                       Into d_gamma, Into d_beta, Into d_residual, const Encoding&, const RngKey&, QTensor error,
                       Probe) override;
  void update_running(Moments, int64_t count, float momentum, Tensor running_mean, Tensor running_variance) override;

  void pool_forward(const PoolProblem&, QTensor x, QTensor y) override;
  void pool_backward(const PoolProblem&, QTensor x, QTensor y, Tensor dy, Into dx) override;
  void global_pool_forward(QTensor x, Tensor y) override;
  void global_pool_backward(Tensor dy, Into dx) override;
  void roi_pool_forward(const RoiProblem&, std::span<const QTensor> levels, Tensor table, QTensor y) override;
  void roi_pool_backward(const RoiProblem&, std::span<const QTensor> levels, Tensor table, Tensor dy,
                         std::span<const Into> d_levels) override;
  void concat_forward(std::span<const QTensor> parts, QTensor y) override;
  void concat_backward(Tensor dy, std::span<const Into> parts) override;
  void dropout_forward(QTensor x, float rate, const RngKey&, QTensor y) override;
  void dropout_backward(Tensor dy, float rate, const RngKey&, Into dx) override;

  // A label out of range is an Error.
  void softmax_loss(Tensor logits, const int32_t* labels, const float* weights, float smoothing, float gradient_scale,
                    Tensor d_logits, LossReport* report) override;
  void sigmoid_loss(const SigmoidProblem&, Tensor logits, const int32_t* labels, const float* image_scale,
                    float gradient_scale, Tensor d_logits, LossReport* report) override;
  void box_loss(const BoxLossProblem&, Tensor predictions, Tensor targets, const int32_t* labels, const float* scale,
                float gradient_scale, Tensor d_predictions, LossReport* report) override;
  void sgd_update(const SgdProblem&, Tensor w, Tensor gradient, Tensor velocity, const float* lr_scale) override;
  void move_average(float share, Tensor value, Tensor average) override;
  void find_nonfinite(Tensor, int32_t* found) override;
  void add_fixed(Tensor values, int64_t* sums, bool add, int32_t* beyond) override;
  void read_fixed(const int64_t* sums, Tensor values) override;

 private:
  StepState now_;
};

}  // namespace octet
