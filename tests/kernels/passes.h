// How the tests of the CPU's elementwise passes compare one pass on all instruction sets and numbers of threads.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "kernels/reference/backend.h"
#include "tests/kernels/cases.h"

namespace octet::test::passes {

// What a pass wrote: tensors in a fixed order, and integers.
struct Outcome {
  std::vector<OwnedTensor> tensors;
  std::vector<uint64_t> counts;
};
using Pass = std::function<Outcome(Backend&)>;

inline void expect_equal_bits(const Outcome& one, const Outcome& other, const std::string& what) {
  ASSERT_EQ(one.tensors.size(), other.tensors.size());
  for (size_t i = 0; i < one.tensors.size(); ++i) {
    const Tensor a = one.tensors[i], b = other.tensors[i];
    EXPECT_EQ(memcmp(a.data, b.data, a.bytes()), 0) << what << ", tensor " << i;
  }
  EXPECT_EQ(one.counts, other.counts) << what;
}

// Codes may differ by one where a sum's last bit moved a value over a rounding boundary: at most one in a thousand, and
// one code more, for tensors of a few elements. Real values may differ by `tolerance` times the tensor's largest one.
inline void expect_close(const Outcome& one, const Outcome& reference, float tolerance, const std::string& what) {
  ASSERT_EQ(one.tensors.size(), reference.tensors.size());
  for (size_t t = 0; t < one.tensors.size(); ++t) {
    const OwnedTensor &a = one.tensors[t], &b = reference.tensors[t];
    float largest = 0;
    for (int64_t i = 0; i < b.elements(); ++i) largest = std::max(largest, std::fabs(b[i]));
    int64_t differ = 0;
    for (int64_t i = 0; i < a.elements(); ++i) {
      if (!is_real(a.view().dtype)) {
        EXPECT_LE(std::fabs(a[i] - b[i]), tolerance == 0 ? 0 : 1) << what << ", tensor " << t << ", element " << i;
        differ += a[i] != b[i];
      } else {
        ASSERT_LE(std::fabs(a[i] - b[i]), tolerance * largest) << what << ", tensor " << t << ", element " << i;
      }
    }
    EXPECT_LE(differ, a.elements() / 1000 + 1) << what << ", tensor " << t;
  }
}

// Runs the pass on every instruction set with one to three threads: all bits are those of the first.
inline Outcome same_everywhere(const Pass& pass, const std::string& what) {
  const NamedCase scope_of_pass(what);
  Outcome first;
  for (const Isa isa : available_isas()) {
    for (const int threads : {1, 2, 3}) {
      const auto backend = make_cpu_backend({isa, threads});
      const NamedCase scope(say(name_of(isa), " with ", threads, " threads"));
      const Outcome outcome = pass(*backend);
      if (first.tensors.empty()) first = outcome;
      expect_equal_bits(outcome, first, what);
    }
  }
  return first;
}
// The same, beside the reference.
inline void compare(const Pass& pass, float tolerance, const std::string& what) {
  const Outcome computed = same_everywhere(pass, what);
  const NamedCase scope(what + " on the reference");
  ReferenceBackend reference;
  const Outcome expected = pass(reference);
  expect_close(computed, expected, tolerance, what);
  if (tolerance == 0) {
    EXPECT_EQ(computed.counts, expected.counts) << what;
  }
}

// Odd numbers of pixels; more than one chunk of 16,384 elements in some.
inline std::vector<Shape> shapes() {
  return {{1, 1, 1, 1},  {3, 37, 53, 1},  {1, 3, 5, 3},    {3, 71, 77, 3},  {2, 9, 7, 16}, {5, 27, 31, 16},
          {3, 7, 5, 17}, {3, 25, 29, 17}, {3, 21, 23, 24}, {3, 21, 15, 48}, {1, 1, 1, 64}, {7, 13, 11, 64}};
}
inline std::string name_of(Shape s) { return say(s.n, "x", s.h, "x", s.w, "x", s.c); }

inline Encoding codes(Rounding rounding, Range range, const float* held = nullptr, int qmax = 127) {
  Encoding encoding{DType::s8, qmax, rounding, range, held};
  return encoding;
}
inline OwnedQTensor room_for(const Encoding& encoding, Shape shape) {
  return OwnedQTensor(OwnedTensor(shape, encoding.dtype));
}
inline void keep(Outcome& outcome, const OwnedQTensor& q) {
  outcome.tensors.push_back(q.values());
  if (q.scale() == nullptr) return;
  OwnedTensor scale({1, 1, 1, 1});
  *scale.f32() = *q.scale();
  outcome.tensors.push_back(scale);
}

// One channel in five is beyond its range, as bf16 may be, and one in seven is constant.
struct Norm : NormOperands {
  explicit Norm(int64_t channels) : NormOperands(channels) {
    for (int64_t c = 4; c < channels; c += 5) moments.min.f32()[c] = 0.25f;
    for (int64_t c = 6; c < channels; c += 7) moments.max.f32()[c] = moments.min.f32()[c];
  }
};
// Where the activation of this step lets the gradient pass, as the backend keeps it; empty without an activation.
inline OwnedTensor mask_of(Backend& backend, const AffineProblem& problem, Tensor x, Moments moments,
                           AffineParameters parameters, QTensor residual) {
  if (problem.activation == Activation::none) return {};
  const OwnedTensor y(problem.shape), mask(mask_shape(problem.shape), DType::u8);
  backend.affine_forward({problem, x, moments, parameters, residual, {}, {}, {y}, {}, mask});
  return mask;
}
enum class Other { none, codes, unsigned_codes, real };
inline constexpr Other others[] = {Other::none, Other::codes, Other::unsigned_codes, Other::real};
inline OwnedQTensor other_tensor(Other other, Shape shape, uint32_t seed, float magnitude) {
  return other == Other::none             ? OwnedQTensor()
         : other == Other::codes          ? random_codes(shape, seed)
         : other == Other::unsigned_codes ? random_unsigned_codes(shape, seed)
                                          : random_real_operand(shape, seed, magnitude);
}

}  // namespace octet::test::passes
