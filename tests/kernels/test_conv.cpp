// Every convolution of the CPU backend against the plain loops: integers to the last bit, on every instruction set this
// processor has and for several thread counts; real ones within rounding, and the same bits everywhere.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/conv_table.h"
#include "kernels/cpu/convolution.h"
#include "kernels/shared/sums.h"
#include "tests/emulated/kernels.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/random_problems.h"

namespace octet {
namespace {
using namespace test;

struct Operands {
  OwnedQTensor x, w, dy;
};
Operands codes_of(const ConvProblem& p) {
  return {random_codes(p.x, 1), random_codes(p.weight(), 2), random_codes(p.y, 3)};
}
Operands unsigned_codes_of(const ConvProblem& p) {
  return {random_unsigned_codes(p.x, 1), random_codes(p.weight(), 2), random_codes(p.y, 3)};
}
Operands reals_of(const ConvProblem& p) {
  return {random_real_operand(p.x, 1), random_real_operand(p.weight(), 2), random_real_operand(p.y, 3)};
}

// All that one convolution computes. `add` starts dx and dw from random values.
struct Results {
  OwnedTensor y, dx, dw;
  OwnedMoments moments;
};
template <class Run>
Results results_of(const ConvProblem& p, DType type, bool add, const Run& run) {
  Results r{OwnedTensor(p.y, type), add ? random_real(p.x, 4, 1, type) : OwnedTensor(p.x, type),
            add ? random_real(p.weight(), 5) : OwnedTensor(p.weight()), OwnedMoments(p.y.c)};
  run(r);
  return r;
}
Results reference(const ConvProblem& p, const Operands& o, DType type, bool add) {
  const auto backend = make_reference_backend();
  return results_of(p, type, add, [&](Results& r) {
    const Moments moments = r.moments;
    backend->conv_forward({p, o.x, o.w, r.y, {&moments, 1}});
    backend->conv_backward_data({p, o.dy, o.w, {r.dx, add}});
    backend->conv_backward_weight({p, o.x, o.dy, {r.dw, add}});
  });
}
template <class Run>
void named(const char* pass, const Run& run) {
  const Scope scope(pass);
  run();
}
Results computed(cpu::Convolution& convolution, const ConvProblem& p, const Operands& o, DType type, bool add) {
  return results_of(p, type, add, [&](Results& r) {
    const Moments moments = r.moments;
    named("forward", [&] { convolution.forward({p, o.x, o.w, r.y, {&moments, 1}}); });
    named("backward_data", [&] { convolution.backward_data({p, o.dy, o.w, {r.dx, add}}); });
    named("backward_weight", [&] { convolution.backward_weight({p, o.x, o.dy, {r.dw, add}}); });
  });
}

void expect_same(const OwnedTensor& got, const OwnedTensor& want, const char* what) {
  for (int64_t i = 0; i < want.elements(); ++i) ASSERT_EQ(got[i], want[i]) << what << " at " << i;
}
void expect_near(const OwnedTensor& got, const OwnedTensor& want, double bound, const char* what) {
  for (int64_t i = 0; i < want.elements(); ++i) ASSERT_NEAR(got[i], want[i], bound) << what << " at " << i;
}
// `values` bounds the error of the values that the moments are of.
void expect_moments(const Results& got, const Results& want, double values) {
  for (int64_t c = 0; c < want.moments.mean.elements(); ++c) {
    const double largest = std::max(std::abs(want.moments.min[c]), std::abs(want.moments.max[c])) + values;
    // 64 values are summed in f32: at most 64 roundings of 2^-24 relative to the sum of magnitudes.
    const double relative = 64 * std::ldexp(1.0, -24);
    ASSERT_NEAR(got.moments.mean[c], want.moments.mean[c], values + relative * largest);
    ASSERT_NEAR(got.moments.variance[c], want.moments.variance[c], 4 * (values + relative * largest) * largest);
    ASSERT_NEAR(got.moments.min[c], want.moments.min[c], values);
    ASSERT_NEAR(got.moments.max[c], want.moments.max[c], values);
  }
}

void expect_same_moments(const Results& got, const Results& want) {
  expect_same(got.moments.mean, want.moments.mean, "mean");
  expect_same(got.moments.variance, want.moments.variance, "variance");
  expect_same(got.moments.min, want.moments.min, "min");
  expect_same(got.moments.max, want.moments.max, "max");
}
void expect_the_same_without_extremes(cpu::Convolution& convolution, const ConvProblem& p, const Operands& o,
                                      DType type, const Results& want) {
  const Scope scope("without extremes");
  const Results got = results_of(p, type, false, [&](Results& r) {
    Moments few = r.moments;
    few.min = few.max = nullptr;
    convolution.forward({p, o.x, o.w, r.y, {&few, 1}});
  });
  expect_same(got.y, want.y, "y");
  expect_same(got.moments.mean, want.moments.mean, "mean");
  expect_same(got.moments.variance, want.moments.variance, "variance");
}

class Int8Convolution : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Tiers, Int8Convolution, testing::ValuesIn(available_isas()),
                         [](const auto& isa) { return std::string(name_of(isa.param)); });

void expect_equal_to_plain_loops(cpu::Convolution& convolution, bool add, DType x = DType::s8,
                                 const std::vector<ConvCase>& cases = conv_cases()) {
  for (const ConvCase& c : cases) {
    const NamedCase scope(c.name);
    const Operands operands = x == DType::u8 ? unsigned_codes_of(c.problem) : codes_of(c.problem);
    const DType type = add ? DType::bf16 : DType::f32;
    const Results want = reference(c.problem, operands, type, add);
    const Results got = computed(convolution, c.problem, operands, type, add);
    expect_same(got.y, want.y, "y");
    expect_same(got.dx, want.dx, "dx");
    expect_same(got.dw, want.dw, "dw");
    expect_same_moments(got, want);
    expect_the_same_without_extremes(convolution, c.problem, operands, type, want);
    if (testing::Test::HasFatalFailure()) return;
    add = !add;
  }
}

// Taps that read behind the image find zeros although nothing stands before it, and not what an earlier problem left.
TEST_P(Int8Convolution, ZerosBehindTheImageAlone) {
  std::vector<ConvCase> cases;
  for (const int groups : {1, 33})
    for (const bool high : {false, true}) {
      ConvProblem p;
      p.x = p.y = high ? Shape{2, 1, 9, 33} : Shape{2, 9, 1, 33};
      p.kernel_h = high ? 2 : 1, p.kernel_w = high ? 1 : 2;
      p.groups = groups;
      cases.push_back(square_case({2, 9, 9, 66}, 66, 3, 1, 1));
      cases.push_back({say(high ? "high" : "wide", ", groups ", groups), p});
    }
  for (const int threads : {1, 9})
    expect_equal_to_plain_loops(*cpu::make_int8_convolution(GetParam(), threads), false, DType::s8, cases);
}

TEST_P(Int8Convolution, EqualsThePlainLoops) {
  for (const int threads : {1, 2, 7}) {
    const NamedCase scope(say(threads, " threads"));
    expect_equal_to_plain_loops(*cpu::make_int8_convolution(GetParam(), threads), threads % 2 == 0);
  }
}

// Few threads pack each on their own, many together; some problems take several rounds and several sums. Where images
// are few, threads take panels. Where these are few, too, the items of a round have sums apart.
TEST(SharedWork, DoesNotDependOnThreads) {
  const std::vector<ConvCase> cases = {
      square_case({20, 28, 28, 256}, 96, 3, 1, 1), square_case({2, 14, 14, 512}, 200, 1, 1, 0),
      square_case({40, 7, 7, 264}, 130, 3, 1, 1),  square_case({3, 288, 288, 130}, 520, 1, 1, 0),
      square_case({9, 14, 14, 256}, 256, 3, 2, 1), square_case({16, 28, 28, 64}, 64, 3, 1, 1),
      square_case({90, 28, 28, 256}, 32, 3, 1, 1)};
  for (const ConvCase& c : cases) {
    const NamedCase scope(c.name);
    const Operands operands = unsigned_codes_of(c.problem);
    const auto results = [&](int threads) {
      return computed(*cpu::make_int8_convolution(best_isa(), threads), c.problem, operands, DType::bf16, true);
    };
    const auto same = [](const Tensor& got, const Tensor& want) {
      return memcmp(got.data, want.data, want.bytes()) == 0;
    };
    const Results alone = results(1);
    for (const int threads : {2, 9, 64}) {
      const Results got = results(threads);
      EXPECT_TRUE(same(got.y, alone.y) && same(got.dx, alone.dx) && same(got.dw, alone.dw)) << threads << " threads";
      expect_same_moments(got, alone);
    }
  }
}

TEST_P(Int8Convolution, OfUnsignedCodesEqualsThePlainLoops) {
  const auto convolution = cpu::make_int8_convolution(GetParam(), 2);
  expect_equal_to_plain_loops(*convolution, false, DType::u8);
  expect_equal_to_plain_loops(*convolution, true);  // nothing is left behind by the other type
}

constexpr int random_problems = 150;

TEST_P(Int8Convolution, OfRandomProblemsEqualsThePlainLoops) {
  for (const DType x : {DType::s8, DType::u8})
    expect_equal_to_plain_loops(*cpu::make_int8_convolution(GetParam(), 2), x == DType::u8, x,
                                random_conv_cases(random_problems));
}

TEST_P(Int8Convolution, OfLayersOfNetworksEqualsThePlainLoops) {
  expect_equal_to_plain_loops(*cpu::make_int8_convolution(GetParam(), 2), false, DType::u8, network_cases());
}

// Sums so large that int32 holds few of them, one, and that one alone.
TEST_P(Int8Convolution, MomentsOfTheLargestSumsAreExact) {
  const auto convolution = cpu::make_int8_convolution(GetParam(), 2);
  for (const ConvCase& c : {square_case({2, 7, 9, 2304}, 40, 1, 1, 0), square_case({2, 11, 9, 9000}, 16, 1, 1, 0),
                            square_case({1, 4, 5, 40000}, 3, 1, 1, 0)}) {
    const NamedCase scope(c.name);
    Operands operands = unsigned_codes_of(c.problem);
    std::fill_n(operands.x.s8(), operands.x.elements(), int8_t{-1});  // 255
    for (int64_t i = 0; i < operands.w.elements(); ++i)
      operands.w.s8()[i] = i / c.problem.x.c % 2 == 0 ? int8_t{127} : int8_t{-127};
    const Results want = reference(c.problem, operands, DType::f32, false);
    const Results got = computed(*convolution, c.problem, operands, DType::f32, false);
    expect_same(got.y, want.y, "y");
    expect_same_moments(got, want);
    for (int64_t i = 0; i < c.problem.y.c; ++i) ASSERT_EQ(got.moments.variance[i], 0) << i;
    expect_the_same_without_extremes(*convolution, c.problem, operands, DType::f32, want);
    if (HasFatalFailure()) return;
  }
}

// Three groups at once are three convolutions, to the last bit of values and moments.
TEST_P(Int8Convolution, GroupsAreConvolvedAsIfAlone) {
  const auto convolution = cpu::make_int8_convolution(GetParam(), 2);
  for (const ConvCase& c : conv_cases()) {
    const NamedCase scope(c.name);
    const ConvProblem& p = c.problem;
    const auto three = [](Shape shape) { return Shape{3 * shape.n, shape.h, shape.w, shape.c}; };
    const OwnedQTensor x = random_codes(three(p.x), 1), w = random_codes(p.weight(), 2);
    OwnedTensor y(three(p.y)), alone(p.y);
    const OwnedMoments moments[] = {OwnedMoments(p.y.c), OwnedMoments(p.y.c), OwnedMoments(p.y.c)};
    const Moments of_groups[] = {moments[0], moments[1], moments[2]};
    convolution->forward({p, x, w, y, of_groups});
    for (int64_t group = 0; group < 3; ++group) {
      const OwnedMoments wanted(p.y.c);
      const Moments of_one = wanted;
      convolution->forward({p, QTensor(x).images(group * p.x.n, p.x.n), w, alone, {&of_one, 1}});
      for (int64_t i = 0; i < alone.elements(); ++i) ASSERT_EQ(y[group * alone.elements() + i], alone[i]) << i;
      expect_same(moments[group].mean, wanted.mean, "mean");
      expect_same(moments[group].variance, wanted.variance, "variance");
      expect_same(moments[group].min, wanted.min, "min");
      expect_same(moments[group].max, wanted.max, "max");
    }
    if (HasFatalFailure()) return;
  }
}

#if defined(__x86_64__)
void expect_emulated_equals_plain_loops(cpu::Convolution& convolution) {
  expect_equal_to_plain_loops(convolution, false);
  expect_equal_to_plain_loops(convolution, true, DType::u8);
  expect_equal_to_plain_loops(convolution, false, DType::u8, random_conv_cases(random_problems));
}
// The AMX kernels' text, on tiles emulated in C++.
TEST(EmulatedAmx, EqualsThePlainLoops) {
  if (best_isa() < Isa::avx512_vnni) GTEST_SKIP() << "packs with AVX-512";
  cpu::TableConvolution convolution(cpu::amx_emulated::code_kernels, nullptr, 2);
  expect_emulated_equals_plain_loops(convolution);
}

// The AVX-VNNI kernels' text, with the instruction of AVX-512.
TEST(EmulatedAvxVnni, EqualsThePlainLoops) {
  if (best_isa() < Isa::avx512_vnni) GTEST_SKIP() << "multiplies with AVX-512 VNNI";
  cpu::TableConvolution convolution(cpu::avx_vnni_emulated::code_kernels, nullptr, 2);
  expect_emulated_equals_plain_loops(convolution);
}

// The NEON kernels' text, its intrinsics in C++ (tests/emulated).
TEST(EmulatedNeon, EqualsThePlainLoops) {
  cpu::TableConvolution convolution(cpu::neon_dot::code_kernels, &cpu::neon_dot::depthwise_kernels, 2);
  expect_emulated_equals_plain_loops(convolution);
}

TEST(EmulatedNeonI8mm, EqualsThePlainLoops) {
  cpu::TableConvolution convolution(cpu::neon_i8mm::code_kernels, nullptr, 2);
  expect_emulated_equals_plain_loops(convolution);
}

TEST(EmulatedNeon, RealNumbersHaveTheSameBits) {
  cpu::TableConvolution convolution(cpu::neon_dot::real_kernels, nullptr, 2);
  const auto same = cpu::make_fixed_order_convolution(Isa::scalar, 1);
  for (const ConvCase& c : conv_cases()) {
    const NamedCase scope(c.name);
    const Operands operands = reals_of(c.problem);
    const Results want = computed(*same, c.problem, operands, DType::f32, false);
    const Results got = computed(convolution, c.problem, operands, DType::f32, false);
    expect_same(got.y, want.y, "y");
    expect_same(got.dx, want.dx, "dx");
    expect_same(got.dw, want.dw, "dw");
    if (HasFatalFailure()) return;
  }
}
#endif

TEST(ConvolutionLimits, LargestWeightGradientOfCodes) {
  const ConvProblem most = square_case({1, 362, 362, 1}, 1, 3, 1, 1).problem,
                    more = square_case({1, 363, 363, 1}, 1, 3, 1, 1).problem;
  check_weight_gradient(most, DType::s8);
  EXPECT_THROW(check_weight_gradient(most, DType::u8), UsageError);
  EXPECT_THROW(check_weight_gradient(more, DType::s8), UsageError);
  check_weight_gradient(more, DType::f32);
  check_weight_gradient(square_case({1, 363, 363, 1}, 1, 1, 1, 0).problem, DType::s8);  // a pixel list has no limit
}

// More than 131,072 pixels of extreme codes: the weight gradient leaves int32.
TEST_P(Int8Convolution, WideSumsAreExact) {
  const ConvProblem p = square_case({9, 130, 130, 2}, 3, 3, 1, 1).problem;
  Operands operands = codes_of(p);
  std::fill_n(operands.x.s8(), operands.x.elements(), int8_t{127});
  std::fill_n(operands.dy.s8(), operands.dy.elements(), int8_t{-127});
  const auto convolution = cpu::make_int8_convolution(GetParam(), 2);
  const auto expect_exact = [&] {
    expect_same(computed(*convolution, p, operands, DType::f32, false).dw, reference(p, operands, DType::f32, false).dw,
                "dw");
  };
  expect_exact();
  operands.x = random_unsigned_codes(p.x, 1);
  std::fill_n(operands.x.s8(), operands.x.elements(), int8_t{-1});  // 255
  expect_exact();
}

// As many extreme products as forward and the data gradient may sum.
TEST_P(Int8Convolution, LongestSumsAreExact) {
  const auto convolution = cpu::make_int8_convolution(GetParam(), 2);
  const auto expect_exact = [&](const ConvProblem& p, bool positive) {
    Operands operands = codes_of(p);
    if (positive) operands.x = random_unsigned_codes(p.x, 1);
    std::fill_n(operands.x.s8(), operands.x.elements(), positive ? int8_t{-1} : int8_t{127});  // 255
    std::fill_n(operands.w.s8(), operands.w.elements(), int8_t{127});
    std::fill_n(operands.dy.s8(), operands.dy.elements(), int8_t{-127});
    const Results want = reference(p, operands, DType::f32, false);
    const Results got = computed(*convolution, p, operands, DType::f32, false);
    expect_same(got.y, want.y, "y");
    expect_same(got.dx, want.dx, "dx");
  };
  expect_exact(square_case({1, 1, 1, products_per_sum(DType::u8)}, 3, 1, 1, 0).problem, true);
  expect_exact(square_case({1, 1, 1, products_per_sum(DType::s8)}, 3, 1, 1, 0).problem, false);
  expect_exact(square_case({1, 1, 1, 3}, products_per_sum(DType::s8), 1, 1, 0).problem, false);
}

class FixedOrderConvolution : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Tiers, FixedOrderConvolution, testing::ValuesIn(available_isas()),
                         [](const auto& isa) { return std::string(name_of(isa.param)); });

// A sum of n products below 1 in f32, in any order, errs by less than n * n * 2^-24.
double sum_bound(double products) { return 1e-6 + products * products * std::ldexp(1.0, -24) / 2; }
double forward_products(const ConvProblem& p) {
  return static_cast<double>(p.weight().h * p.weight().w * p.weight().c);
}
double backward_products(const ConvProblem& p) {
  const int64_t channels = p.y.c / p.groups;
  return static_cast<double>(p.kernel_h * p.kernel_w * channels);
}

void expect_near_and_the_same_bits(Isa isa, const std::vector<ConvCase>& cases) {
  const auto first = cpu::make_fixed_order_convolution(Isa::scalar, 1);
  const auto one = cpu::make_fixed_order_convolution(isa, 1), three = cpu::make_fixed_order_convolution(isa, 3),
             many = cpu::make_fixed_order_convolution(isa, 20);
  bool add = false;
  for (const ConvCase& c : cases) {
    const NamedCase scope(c.name);
    const Operands operands = reals_of(c.problem);
    const Results want = reference(c.problem, operands, DType::f32, add);
    const Results same = computed(*first, c.problem, operands, DType::f32, add);
    expect_near(same.y, want.y, sum_bound(forward_products(c.problem)), "y");
    expect_near(same.dx, want.dx, sum_bound(backward_products(c.problem)), "dx");
    expect_near(same.dw, want.dw, sum_bound(static_cast<double>(c.problem.y.pixels())), "dw");
    expect_moments(same, want, sum_bound(forward_products(c.problem)));
    for (cpu::Convolution* convolution : {one.get(), three.get(), many.get()}) {
      const Results got = computed(*convolution, c.problem, operands, DType::f32, add);
      expect_same(got.y, same.y, "y");
      expect_same(got.dx, same.dx, "dx");
      expect_same(got.dw, same.dw, "dw");
      expect_same(got.moments.mean, same.moments.mean, "mean");
      expect_same(got.moments.variance, same.moments.variance, "variance");
    }
    if (testing::Test::HasFatalFailure()) return;
    add = !add;
  }
}
TEST_P(FixedOrderConvolution, NearThePlainLoopsAndTheSameBitsEverywhere) {
  expect_near_and_the_same_bits(GetParam(), conv_cases());
}
TEST_P(FixedOrderConvolution, OfRandomProblemsIsNearAndTheSame) {
  expect_near_and_the_same_bits(GetParam(), random_conv_cases(random_problems));
}

TEST(OneDnnConvolution, NearThePlainLoops) {
  const auto convolution = cpu::make_onednn_convolution(2);
  bool add = false;
  for (const ConvCase& c : conv_cases()) {
    const NamedCase scope(c.name);
    const Operands operands = reals_of(c.problem);
    const Results want = reference(c.problem, operands, DType::f32, add);
    const Results got = computed(*convolution, c.problem, operands, DType::f32, add);
    expect_near(got.y, want.y, sum_bound(forward_products(c.problem)), "y");
    expect_near(got.dx, want.dx, sum_bound(backward_products(c.problem)), "dx");
    expect_near(got.dw, want.dw, sum_bound(static_cast<double>(c.problem.y.pixels())), "dw");
    expect_moments(got, want, sum_bound(forward_products(c.problem)));
    if (HasFatalFailure()) return;
    add = !add;
  }
}

TEST(Convolution, RefusesOperandsOfTheOtherKind) {
  const ConvProblem p = square_case({1, 4, 4, 3}, 5, 3, 1, 1).problem;
  const Operands codes = codes_of(p), reals = reals_of(p);
  const OwnedTensor y(p.y);
  const auto backend = make_cpu_backend({Isa::scalar, 1});
  EXPECT_THROW(backend->conv_forward({p, codes.x, reals.w, y}), Error);
  EXPECT_THROW(backend->conv_backward_data({p, reals.dy, codes.w, {OwnedTensor(p.x)}}), Error);
  EXPECT_THROW(backend->conv_backward_weight({p, reals.x, codes.dy, {OwnedTensor(p.weight())}}), Error);
}

}  // namespace
}  // namespace octet
