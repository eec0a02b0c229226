// Data gradients that take parts of gradients (Into::mask, Into::even) on every instruction set, against those of whole
// gradients, byte by byte.
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/conv_table.h"
#include "tests/emulated/kernels.h"
#include "tests/kernels/cases.h"

namespace octet {
namespace {
using namespace test;

ConvProblem problem_of(Shape x, int64_t outputs, int kernel, int stride) {
  return square_case(x, outputs, kernel, stride, kernel / 2).problem;
}
void expect_equal(const Tensor& got, const Tensor& want) { EXPECT_EQ(memcmp(got.data, want.data, want.bytes()), 0); }

// The gradient of a residual is that of the sum where the mask lets it pass. dx is added to it.
void expect_same_masked(Backend& backend, const ConvProblem& p, DType type) {
  const NamedCase scope(say("masked: ", p.x.c, " channels, kernel ", p.kernel_h, ", ", name_of(type)));
  const NormOperands norm(p.x.c);
  const OwnedTensor x = random_real(p.x, 5, 1, type), of_sum = random_real(p.x, 8, 20, type), whole(p.x, type);
  const OwnedTensor mask(mask_shape(p.x), DType::u8), y(p.x), d_x(p.x);
  const OwnedQTensor dy = random_codes(p.y, 3), w = random_codes(p.weight(), 2);
  AffineProblem problem{p.x};
  problem.activation = Activation::relu;
  backend.affine_forward({.problem = problem,
                          .x = {x.view()},
                          .moments = norm.moments,
                          .parameters = norm.parameters(),
                          .y = {y.view()},
                          .mask = mask});
  backend.affine_backward({.problem = problem,
                           .x = {x.view()},
                           .moments = norm.moments,
                           .parameters = norm.parameters(),
                           .mask = mask,
                           .dy = of_sum,
                           .d_residual = {whole},
                           .grad_output = {d_x.view()}});
  EXPECT_NE(memcmp(whole.view().data, of_sum.view().data, whole.view().bytes()), 0);
  backend.conv_backward_data({p, dy, w, {whole, true}});
  backend.conv_backward_data({p, dy, w, {of_sum, true, mask}});
  expect_equal(of_sum, whole);
}

// A data gradient of one tap with a stride of 2 writes even pixels alone, and the next one adds to these.
void expect_same_with_gaps(Backend& backend, Shape x, DType type) {
  const NamedCase scope(say("gaps: ", x.h, "x", x.w, "x", x.c, ", ", name_of(type)));
  const ConvProblem shortcut = problem_of(x, 48, 1, 2);
  for (const int kernel : {1, 3}) {
    const ConvProblem next = problem_of(x, 32, kernel, 1);
    const OwnedQTensor dy[] = {random_codes(shortcut.y, 3), random_codes(next.y, 4)};
    const OwnedQTensor w[] = {random_codes(shortcut.weight(), 1), random_codes(next.weight(), 2)};
    const OwnedTensor whole = random_real(x, 7, 20, type), even = random_real(x, 8, 20, type);
    backend.conv_backward_data({shortcut, dy[0], w[0], {whole}});
    backend.conv_backward_data({shortcut, dy[0], w[0], {even, false, {}, true}});
    backend.conv_backward_data({next, dy[1], w[1], {whole, true}});
    backend.conv_backward_data({next, dy[1], w[1], {even, true, {}, true}});
    expect_equal(even, whole);
  }
}

void expect_parts_change_no_bit(Backend& backend) {
  for (const DType type : {DType::bf16, DType::f32}) {
    for (const int64_t channels : {4, 16, 21, 24, 32, 64, 72, 256})
      for (const int kernel : {1, 3}) expect_same_masked(backend, problem_of({2, 9, 7, channels}, 40, kernel, 1), type);
    expect_same_masked(backend, problem_of({5, 1, 1, 48}, 16, 1, 1), type);
    for (const Shape& x : {Shape{3, 14, 14, 64}, {2, 9, 7, 40}, {2, 5, 4, 21}, {5, 1, 1, 64}, {1, 2, 30, 16}})
      expect_same_with_gaps(backend, x, type);
  }
}

TEST(GradientParts, ChangeNoBit) {
  for (const Isa isa : available_isas()) {
    const NamedCase scope(name_of(isa));
    for (const int threads : {1, 3}) expect_parts_change_no_bit(*make_cpu_backend({.isa = isa, .threads = threads}));
  }
}

#if defined(__x86_64__)
// Passes and kernels of different tiers agree on the order of a mask's bits.
TEST(GradientParts, ChangeNoBitOnEmulatedInstructions) {
  const auto expect_so = [](Isa passes, const cpu::ContractionKernels& kernels) {
    const NamedCase scope(name_of(passes));
    cpu::CpuBackend backend({.isa = passes, .threads = 2},
                            std::make_unique<cpu::TableConvolution>(kernels, nullptr, 2));
    expect_parts_change_no_bit(backend);
  };
  if (best_isa() >= Isa::avx512_vnni) {
    expect_so(Isa::avx512_vnni, cpu::amx_emulated::code_kernels);
    expect_so(Isa::avx2, cpu::avx_vnni_emulated::code_kernels);
  }
  expect_so(Isa::scalar, cpu::neon_dot::code_kernels);
  expect_so(Isa::scalar, cpu::neon_i8mm::code_kernels);
}
#endif

TEST(GradientParts, OthersAreRefused) {
  const ConvProblem same = problem_of({2, 9, 7, 16}, 16, 1, 1), halved = problem_of({2, 9, 7, 16}, 16, 1, 2);
  const OwnedTensor mask(mask_shape(same.x), DType::u8), small({1, 1, 1, 4}, DType::u8), dx(same.x);
  const auto backend = make_cpu_backend({.isa = best_isa(), .threads = 1});
  const auto refuses = [&](const ConvProblem& p, const Into& into) {
    const OwnedQTensor dy = random_codes(p.y, 3), w = random_codes(p.weight(), 2);
    EXPECT_THROW(backend->conv_backward_data({p, dy, w, into}), Error);
  };
  refuses(same, {dx, false, mask});
  refuses(same, {dx, true, small});
  refuses(same, {dx, false, {}, true});
  refuses(halved, {dx, true, mask});
  refuses(halved, {dx, false, mask, true});
  refuses(problem_of({2, 9, 7, 16}, 16, 3, 2), {dx, false, {}, true});
  const OwnedQTensor dy = random_real_operand(same.y, 3), w = random_real_operand(same.weight(), 2);
  EXPECT_THROW(backend->conv_backward_data({same, dy, w, {dx, true, mask}}), Error);
}

}  // namespace
}  // namespace octet
