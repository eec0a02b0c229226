// The backend of CPUs. Whatever it overrides gives the same bits on every instruction set and with any number of
// threads; the rest is the reference.
#pragma once
#include <memory>

#include "kernels/cpu/conv.h"
#include "kernels/cpu/passes.h"
#include "kernels/cpu/scratch.h"
#include "kernels/reference/reference_backend.h"

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

  void quantize(Tensor src, const Encoding&, const RngKey&, QTensor dst, Probe) override;
  void dequantize(QTensor src, Tensor dst) override;
  void conv_forward(const ConvProblem&, QTensor x, QTensor w, Tensor y, Moments) override;
  void conv_forward_groups(const ConvProblem&, QTensor x, QTensor w, Tensor y, std::span<const Moments>) override;
  void conv_backward_data(const ConvProblem&, QTensor dy, QTensor w, Into dx) override;
  void conv_backward_weight(const ConvProblem&, QTensor x, QTensor dy, Into dw) override;
  void affine_forward(const AffineProblem&, Convolved x, Moments, AffineParameters, QTensor residual, const Encoding&,
                      const RngKey&, QTensor y, Probe) override;
  void affine_backward(const AffineProblem&, Convolved x, Moments, AffineParameters, QTensor residual, Tensor dy,
                       Into d_gamma, Into d_beta, Into d_residual, const Encoding&, const RngKey&, QTensor error,
                       Probe) override;
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
  Convolution& convolution(QTensor first, QTensor second);

  CpuOptions options_;
  const Passes& passes_;
  std::unique_ptr<Convolution> codes_, real_;  // convolutions of int8 codes and of real operands
  Scratch coefficients_, sums_;                // of one affine step
};

}  // namespace octet::cpu
