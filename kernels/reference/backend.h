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

  void update_running(std::span<const RunningStep>) override;
  void sgd_update(std::span<const SgdStep>) override;
  void adamw_update(std::span<const AdamWStep>) override;
  void move_average(float share, Tensor value, Tensor average) override;
  void add_fixed(Tensor values, int64_t* sums, bool add, int32_t* beyond) override;
  void read_fixed(const int64_t* sums, Tensor values) override;
  void find_nonfinite(Tensor, int32_t* found) override;

 protected:
  OCTET_OPERATIONS(OCTET_COMPUTES)

 private:
  StepState now_;
};

}  // namespace octet
