// Softmax cross-entropy: the reference's rows, on threads.
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/parallel.h"

namespace octet::cpu {

void CpuBackend::compute(const SoftmaxLossCall& call) {
  const int64_t rows = call.logits.shape.n, classes = call.logits.shape.c;
  for (int64_t row = 0; row < rows; ++row)
    REQUIRE(call.labels[row] >= -1 && call.labels[row] < classes, "give labels in [0, classes), or -1 for padding",
            "sample ", row, " has label ", call.labels[row], " of ", classes, " classes");
  std::vector<LossReport> reports(static_cast<size_t>(rows));
  const auto row_of = [&](Tensor all, int64_t row) {
    return all ? Tensor{all.f32() + row * classes, {1, 1, 1, classes}, DType::f32} : Tensor{};
  };
  parallel_for(threads_, rows, [&](int64_t row) {
    SoftmaxLossCall own = call;
    own.logits = row_of(call.logits, row), own.d_logits = row_of(call.d_logits, row);
    own.labels += row;
    if (own.weights != nullptr) own.weights += row;
    own.report = &reports[static_cast<size_t>(row)];
    ReferenceBackend::compute(own);
  });
  LossReport sum;
  for (const LossReport& report : reports) {
    sum.loss_sum += report.loss_sum;
    for (size_t i = 0; i < std::size(hit_ranks); ++i) sum.hits[i] += report.hits[i];
    sum.count += report.count;
  }
  *call.report = sum;
}

}  // namespace octet::cpu
