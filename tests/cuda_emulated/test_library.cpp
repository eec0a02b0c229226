// What the CUDA backend does around a library of convolutions: other types and places of the result, adding, moments,
// and passes that the library does not take. Here the library is the reference backend, and operands are small
// integers, whose sums are exact in any order: every byte is the CPU's.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/backend.h"
#include "tests/cuda/compare.h"
#include "tests/cuda_emulation/device_memory.h"

namespace octet::test {
namespace {

using cuda::ConvPass;

struct Calls {
  int taken = 0, added = 0;
};

class ReferenceLibrary final : public cuda::LibraryConvolution {
 public:
  ReferenceLibrary(Calls& calls, bool takes_groups, bool adds)
      : calls_(calls), takes_groups_(takes_groups), adds_(adds) {}
  std::string name() const override { return "reference"; }
  size_t scratch_bytes() const override { return 0; }
  bool takes(ConvPass, const ConvProblem& p, bool add) override {
    return (takes_groups_ || p.groups == 1) && (adds_ || !add);
  }
  void run(ConvPass pass, const ConvProblem& p, bool add, float* x, float* w, float* y) override {
    EXPECT_TRUE(takes(pass, p, add));
    for (const float* tensor : {x, w, y}) EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor) % 16, 0u);
    ++calls_.taken;
    calls_.added += add;
    const cuda::OpenDeviceMemory open;
    const Tensor x_of{x, p.x}, w_of{w, p.weight()}, y_of{y, p.y};
    switch (pass) {
      case ConvPass::forward:
        reference_->conv_forward({p, {x_of}, {w_of}, y_of});
        break;
      case ConvPass::backward_data:
        reference_->conv_backward_data({p, {y_of}, {w_of}, {x_of, add}});
        break;
      case ConvPass::backward_weight:
        reference_->conv_backward_weight({p, {x_of}, {y_of}, {w_of, add}});
        break;
    }
  }

 private:
  Calls& calls_;
  bool takes_groups_, adds_;
  std::unique_ptr<Backend> reference_ = make_reference_backend();
};

OwnedTensor random_integers(Shape shape, uint32_t seed) {
  OwnedTensor result = random_real(shape, seed, 4);
  std::for_each_n(result.f32(), result.elements(), [](float& x) { x = std::round(x); });
  return result;
}

// Both backends' y, moments, dx and dw; `shift` floats beyond a multiple of 64 bytes stand w, dw and dy.
Calls expect_same_by_library(const ConvCase& c, DType type, bool add, int64_t shift, bool takes_groups = true,
                             bool adds = true) {
  const ConvProblem& p = c.problem;
  const OwnedTensor x0 = random_integers(p.x, 1), w0 = random_integers(p.weight(), 2), dy0 = random_integers(p.y, 3),
                    dx0 = random_real(p.x, 4, 1, type), dw0 = random_real(p.weight(), 5);
  Calls calls;
  cuda::CudaBackend cuda({}, std::make_unique<ReferenceLibrary>(calls, takes_groups, adds));
  const auto run = [&](Place& place) {
    const auto shifted = [&](Tensor from) {
      Tensor to = from;
      to.data = static_cast<float*>(place.room(from.bytes() + 64)) + shift;
      place.backend.to_device(to.data, from.data, from.bytes());
      return to;
    };
    const Tensor x = place.copy(x0.view()), w = shifted(w0.view()), dy = shifted(dy0.view());
    const Tensor y = place.zeros(p.y, type), dx = place.copy(dx0.view()), dw = shifted(dw0.view());
    const Moments moments = place.moments(p.y.c);
    place.backend.conv_forward({p, {x}, {w}, y, {&moments, 1}});
    place.backend.conv_backward_data({p, {dy}, {w}, {dx, add}});
    place.backend.conv_backward_weight({p, {x}, {dy}, {dw, add}});
    place.keep("y", y), place.keep("moments", moments, p.y.c), place.keep("dx", dx), place.keep("dw", dw);
  };
  Place on_cuda(cuda), on_cpu(cpu_backend());
  cuda::protect_device_memory(true);
  run(on_cuda);
  cuda::protect_device_memory(false);
  run(on_cpu);
  for (size_t i = 0; i < on_cpu.kept().size(); ++i)
    expect_equal(cuda, on_cuda.kept()[i].tensor, on_cpu.kept()[i].tensor, c.name + ": " + on_cpu.kept()[i].name);
  return calls;
}

TEST(CudaLibrary, ResultsOfEveryTypeAndPlaceEqualTheCpu) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const bool add : {false, true})
      for (const int64_t shift : {0, 3}) {
        const Calls calls = expect_same_by_library(square_case({3, 9, 7, 5}, 6, 3, 2, 1), type, add, shift);
        EXPECT_EQ(calls.taken, 3);
        EXPECT_EQ(calls.added, !add ? 0 : (type == DType::f32) + (shift == 0));  // dx, dw
      }
}

// Several chunks and items, the last of them short; pixel lists as well.
TEST(CudaLibrary, MomentsAreThoseOfTheFixedOrderKernels) {
  for (const ConvCase& c : {square_case({7, 20, 20, 3}, 70, 3, 1, 1), square_case({5, 11, 11, 16}, 9, 1, 1, 0)})
    EXPECT_EQ(expect_same_by_library(c, DType::f32, false, 0).taken, 3);
}

TEST(CudaLibrary, AddsItselfWhereTheLibraryCannot) {
  const Calls calls =
      expect_same_by_library(square_case({2, 6, 6, 4}, 8, 3, 1, 1), DType::f32, true, 0, true, /*adds=*/false);
  EXPECT_EQ(calls.taken, 3);
  EXPECT_EQ(calls.added, 0);
}

TEST(CudaLibrary, WhatItDoesNotTakeGoesToTheFixedOrderKernels) {
  const Calls calls = expect_same_by_library(square_case({2, 6, 6, 8}, 8, 3, 1, 1, 1, 8), DType::f32, true, 0, false);
  EXPECT_EQ(calls.taken, 0);
}

TEST(CudaLibrary, ItsAbsenceIsSaid) {
  EXPECT_EQ(make_cuda_backend({})->note(), "");
  CudaOptions options;
  options.real = RealConvolution::library;
  EXPECT_EQ(make_cuda_backend(options)->note(),
            "convolutions by octet's fixed-order kernels, slowly: built without cuDNN");
}

}  // namespace
}  // namespace octet::test
