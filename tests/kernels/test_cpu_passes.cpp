// The elementwise passes of the CPU backend: the same bits on every instruction set and with any number of threads, and
// those of the reference but for the order of sums.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <new>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/passes.h"
#include "kernels/reference/reference_backend.h"
#include "tests/kernels/cases.h"

namespace octet::test {
namespace {

// What a pass wrote: tensors in a fixed order, and integers.
struct Outcome {
  std::vector<OwnedTensor> tensors;
  std::vector<uint64_t> counts;
};
using Pass = std::function<Outcome(Backend&)>;

void expect_equal_bits(const Outcome& one, const Outcome& other, const std::string& what) {
  ASSERT_EQ(one.tensors.size(), other.tensors.size());
  for (size_t i = 0; i < one.tensors.size(); ++i) {
    const Tensor a = one.tensors[i], b = other.tensors[i];
    EXPECT_EQ(memcmp(a.data, b.data, a.bytes()), 0) << what << ", tensor " << i;
  }
  EXPECT_EQ(one.counts, other.counts) << what;
}

// Codes may differ by one where a sum's last bit moved a value over a rounding boundary: at most one in a thousand, and
// one code more, for tensors of a few elements. Real values may differ by `tolerance` times the tensor's largest one.
void expect_close(const Outcome& one, const Outcome& reference, float tolerance, const std::string& what) {
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

// Runs the pass on every instruction set with one to three threads, and on the reference.
void compare(const Pass& pass, float tolerance, const std::string& what) {
  ReferenceBackend reference;
  const Outcome expected = pass(reference);
  Outcome first;
  for (const Isa isa : available_isas()) {
    for (const int threads : {1, 2, 3}) {
      const auto backend = make_cpu_backend({isa, threads});
      const Outcome outcome = pass(*backend);
      const std::string where = say(what, " on ", name_of(isa), " with ", threads, " threads");
      if (first.tensors.empty()) {
        first = outcome;
        expect_close(outcome, expected, tolerance, where);
        if (tolerance == 0) {
          EXPECT_EQ(outcome.counts, expected.counts) << where;
        }
      }
      expect_equal_bits(outcome, first, where);
    }
  }
}

// Odd numbers of pixels; more than one chunk of 16,384 elements in some.
std::vector<Shape> shapes() {
  return {{1, 1, 1, 1},  {3, 37, 53, 1},  {1, 3, 5, 3},    {3, 71, 77, 3},  {2, 9, 7, 16}, {5, 27, 31, 16},
          {3, 7, 5, 17}, {3, 25, 29, 17}, {3, 21, 23, 24}, {3, 21, 15, 48}, {1, 1, 1, 64}, {7, 13, 11, 64}};
}
std::string name_of(Shape s) { return say(s.n, "x", s.h, "x", s.w, "x", s.c); }

Encoding codes(Rounding rounding, Range range, const float* held = nullptr, int qmax = 127) {
  Encoding encoding{DType::s8, qmax, rounding, range, held};
  return encoding;
}
OwnedQTensor room_for(const Encoding& encoding, Shape shape) {
  return OwnedQTensor(OwnedTensor(shape, encoding.dtype));
}
void keep(Outcome& outcome, const OwnedQTensor& q) {
  outcome.tensors.push_back(q.values());
  if (q.scale() == nullptr) return;
  OwnedTensor scale({1, 1, 1, 1});
  *scale.f32() = *q.scale();
  outcome.tensors.push_back(scale);
}

TEST(CpuPasses, RandomBitsAreThoseOfTheDefinition) {
  const RngKey key{0x123456789ABCDEF0u, 77, 0x80000005u, 0};
  for (const Isa isa : available_isas()) {
    for (const uint64_t group :
         {uint64_t{0}, uint64_t{5}, uint64_t{0xFFFFFFF}, uint64_t{0x10000000}, uint64_t{1} << 40}) {
      std::vector<uint16_t> bits(3 * 256);
      cpu::row_of(isa).passes->random_bits(key, group, 3, bits.data());
      for (uint64_t i = 0; i < bits.size(); ++i)
        ASSERT_EQ(bits[i], random_bits16(key, group * 256 + i)) << name_of(isa) << " group " << group << " bit " << i;
    }
  }
}

TEST(CpuPasses, Quantize) {
  const float held = 0.3f;
  const std::vector<Encoding> encodings = {
      codes(Rounding::nearest, Range::absmax), codes(Rounding::stochastic, Range::absmax),
      codes(Rounding::stochastic, Range::held, &held), codes(Rounding::nearest, Range::absmax, nullptr, 7), Encoding{}};

  for (const Shape shape : shapes()) {
    for (const DType type : {DType::f32, DType::bf16}) {
      const OwnedTensor from = random_real(shape, 5, 0.7f, type);
      for (const Encoding& encoding : encodings) {
        for (const uint64_t first : {uint64_t{0}, uint64_t{1000003}}) {
          const auto pass = [&](Backend& backend) {
            Outcome outcome;
            const OwnedQTensor to = room_for(encoding, shape);
            std::vector<uint32_t> histogram(histogram_bins);
            uint64_t saturated = 0;
            backend.quantize(from, encoding, {9, 8, 7, first}, to,
                             {first == 0 ? histogram.data() : nullptr, &saturated, 2});
            keep(outcome, to);
            outcome.counts.assign(histogram.begin(), histogram.end());
            outcome.counts.push_back(saturated);
            return outcome;
          };
          compare(pass, 0, say("quantize ", name_of(shape), " ", octet::name_of(type)));
        }
      }
    }
  }
}

TEST(CpuPasses, Dequantize) {
  for (const Shape shape : shapes()) {
    for (const OwnedQTensor& from : {random_codes(shape, 3), random_unsigned_codes(shape, 3)}) {
      const auto pass = [&](Backend& backend) {
        const OwnedTensor to(shape);
        backend.dequantize(from, to);
        return Outcome{{to}, {}};
      };
      compare(pass, 0, say("dequantize ", name_of(shape)));
    }
  }
}

struct Norm {
  OwnedMoments moments;
  OwnedTensor gamma, beta;
  explicit Norm(int64_t channels)
      : moments(channels), gamma(random_real({1, 1, 1, channels}, 21)), beta(random_real({1, 1, 1, channels}, 22)) {
    for (int64_t c = 0; c < channels; ++c) {
      moments.mean.f32()[c] = 0.1f * random_number(23, c);
      moments.variance.f32()[c] = 0.5f + 0.2f * random_number(24, c);
      moments.min.f32()[c] = c % 5 == 4 ? 0.25f : -1;  // one channel in five is beyond its range, as bf16 may be
      moments.max.f32()[c] = c % 7 == 6 ? moments.min.f32()[c] : 1;  // and one in seven is constant
    }
  }
  AffineParameters parameters() const { return {gamma.f32(), beta.f32()}; }
};
enum class Other { none, codes, unsigned_codes, real };
constexpr Other others[] = {Other::none, Other::codes, Other::unsigned_codes, Other::real};
OwnedQTensor other_tensor(Other other, Shape shape, uint32_t seed, float magnitude) {
  return other == Other::none             ? OwnedQTensor()
         : other == Other::codes          ? random_codes(shape, seed)
         : other == Other::unsigned_codes ? random_unsigned_codes(shape, seed)
                                          : random_real_operand(shape, seed, magnitude);
}

TEST(CpuPasses, AffineForward) {
  const float held = 1.7f;
  for (const Shape shape : shapes()) {
    const Norm norm(shape.c);
    for (const DType type : {DType::f32, DType::bf16}) {
      for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6}) {
        for (const Other other : others) {
          const bool keeps = activation != Activation::relu6;
          const OwnedQTensor residual = other_tensor(other, shape, 6, 1);
          for (const Encoding& encoding :
               {codes(Rounding::nearest, Range::absmax), codes(Rounding::stochastic, Range::held, &held),
                Encoding{.dtype = DType::u8, .qmax = 255}, Encoding{}}) {
            AffineProblem problem{shape};
            problem.activation = activation;
            problem.normalize = encoding.rounding == Rounding::nearest;
            const auto pass = [&](Backend& backend) {
              Outcome outcome;
              const OwnedQTensor y = room_for(encoding, shape);
              OwnedConvolved x(shape, 5, type);
              if (keeps) x.with_codes();
              backend.affine_forward(problem, x, norm.moments, norm.parameters(), residual, encoding, {1, 2, 3, 40}, y);
              keep(outcome, y);
              if (keeps) outcome.tensors.insert(outcome.tensors.end(), {x.codes, x.units});
              return outcome;
            };
            compare(pass, 0,
                    say("affine_forward ", name_of(shape), " ", octet::name_of(type), " activation ",
                        static_cast<int>(activation), " residual ", static_cast<int>(other)));
          }
        }
      }
    }
  }
}

// What differs among the runs of one backward pass.
struct Backward {
  DType x = DType::f32, dy = DType::f32;
  Activation activation = Activation::relu;
  Other residual = Other::none;
  bool normalize = true, batch_statistics = true, add = false, histogram = false;
  DType d_residual = DType::s8;  // s8: none
  bool parameters = true;
};

void compare_backward(Shape shape, const Backward& b, const Encoding& encoding) {
  const Norm norm(shape.c);
  const OwnedTensor dy = random_real(shape, 6, 0.1f, b.dy);
  OwnedConvolved x(shape, 5, b.x == DType::s8 ? DType::bf16 : b.x);
  if (b.x == DType::s8) x.codes = random_codes(shape, 5).values(), x.units = random_units(shape.c);
  const OwnedQTensor residual = other_tensor(b.residual, shape, 7, 8);
  AffineProblem problem{shape};
  problem.activation = b.activation;
  problem.normalize = b.normalize;
  problem.batch_statistics = b.batch_statistics;
  const auto pass = [&](Backend& backend) {
    Outcome outcome;
    const OwnedQTensor error = room_for(encoding, shape);
    const OwnedTensor d_gamma = random_real({1, 1, 1, shape.c}, 8), d_beta = random_real({1, 1, 1, shape.c}, 9);
    OwnedTensor d_residual;
    if (b.d_residual != DType::s8) d_residual = random_real(shape, 10, 0.1f, b.d_residual);
    std::vector<uint32_t> histogram(histogram_bins);
    uint64_t saturated = 0;
    backend.affine_backward(problem, x, norm.moments, norm.parameters(), residual, dy,
                            b.parameters && b.normalize ? Into{d_gamma, b.add} : Into{},
                            b.parameters ? Into{d_beta, b.add} : Into{}, Into{d_residual, b.add}, encoding,
                            {1, 2, 3, 4096}, error,
                            {b.histogram ? histogram.data() : nullptr, &saturated, b.add ? 3 : 1});
    keep(outcome, error);
    outcome.tensors.push_back(d_gamma);
    outcome.tensors.push_back(d_beta);
    if (b.d_residual != DType::s8) outcome.tensors.push_back(d_residual);
    outcome.counts.assign(histogram.begin(), histogram.end());
    outcome.counts.push_back(saturated);
    return outcome;
  };
  // A chunk adds at most 1,024 numbers one after another in float: relative error 1024 * 2^-24 of the sum of
  // magnitudes, which for random signs is about sqrt(pixels) times the sum. d_gamma and d_beta therefore get 1e-4 of
  // the largest.
  compare(
      pass, 1e-4f,
      say("affine_backward ", name_of(shape), " x ", octet::name_of(b.x), " dy ", octet::name_of(b.dy), " activation ",
          static_cast<int>(b.activation), " residual ", static_cast<int>(b.residual), " normalize ", b.normalize));
}

TEST(CpuPasses, AffineBackward) {
  const float held = 0.1f;
  const Encoding stochastic = codes(Rounding::stochastic, Range::held, &held);
  for (const Shape shape : shapes()) {
    for (const DType x : {DType::f32, DType::bf16, DType::s8}) {
      for (const DType dy : {DType::f32, DType::bf16}) {
        for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6}) {
          for (const Other residual : others) {
            Backward b{x, dy, activation, residual};
            b.d_residual = residual == Other::none ? DType::s8 : x == DType::f32 ? DType::f32 : DType::bf16;
            b.add = dy == DType::bf16;
            b.histogram = x != DType::f32 && residual == Other::codes;
            compare_backward(shape, b, stochastic);
          }
        }
      }
    }
  }
}

TEST(CpuPasses, AffineBackwardOfEveryEncodingAndNorm) {
  for (const Shape shape : shapes()) {
    for (const Encoding& encoding :
         {codes(Rounding::stochastic, Range::absmax), codes(Rounding::nearest, Range::absmax),
          codes(Rounding::stochastic, Range::absmax, nullptr, 7), Encoding{}}) {
      for (const bool normalize : {true, false}) {
        for (const bool parameters : {true, false}) {
          for (const DType x : {DType::bf16, DType::s8}) {
            Backward b{x, DType::bf16};
            b.normalize = normalize;
            b.batch_statistics = parameters;
            b.parameters = parameters;
            compare_backward(shape, b, encoding);
          }
        }
      }
    }
  }
}

TEST(CpuPasses, BackwardWithoutAnErrorFillsTheHistogramAlone) {
  const Shape shape{3, 21, 15, 48};
  const Norm norm(shape.c);
  const OwnedTensor x = random_real(shape, 5, 1, DType::bf16), dy = random_real(shape, 6, 1, DType::bf16);
  const float held = 0;
  const auto pass = [&](Backend& backend) {
    const OwnedTensor d_gamma({1, 1, 1, shape.c}), d_residual(shape);
    std::vector<uint32_t> histogram(histogram_bins);
    uint64_t saturated = 0;
    AffineProblem problem{shape};
    problem.batch_statistics = false;  // so that no sum enters, and the reference's bins are the same
    backend.affine_backward(problem, x, norm.moments, norm.parameters(), {}, dy, {d_gamma}, {}, {d_residual},
                            codes(Rounding::stochastic, Range::held, &held), {}, {}, {histogram.data(), &saturated, 2});
    return Outcome{{d_gamma, d_residual}, {histogram.begin(), histogram.end()}};
  };
  compare(pass, 0, "histogram");
}

TEST(CpuPasses, GradientMayReplaceWhatItCameFrom) {
  const Shape shape{3, 21, 15, 48};
  const Norm norm(shape.c);
  const OwnedTensor x = random_real(shape, 5);
  const OwnedQTensor residual = random_codes(shape, 7);
  const auto pass = [&](Backend& backend) {
    const OwnedTensor dy = random_real(shape, 6, 1, DType::bf16);
    const OwnedQTensor error = room_for(Encoding{}, shape);
    AffineProblem problem{shape};
    problem.batch_statistics = false;
    problem.activation = Activation::relu;
    backend.affine_backward(problem, x, norm.moments, norm.parameters(), residual, dy, {}, {}, {dy}, {}, {}, error, {});
    return Outcome{{dy, error.values()}, {}};
  };
  compare(pass, 0, "d_residual in dy's place");
}

TEST(CpuPasses, SgdUpdate) {
  for (const bool nesterov : {false, true}) {
    const float lr_scale = 0.7f;
    const Shape shape{33, 5, 7, 31};
    const OwnedTensor gradient = random_real(shape, 3);
    const auto pass = [&](Backend& backend) {
      const OwnedTensor w = random_real(shape, 1), velocity = random_real(shape, 2);
      backend.sgd_update({0.1f, 0.9f, 1e-4f, nesterov}, w, gradient, velocity, nesterov ? &lr_scale : nullptr);
      return Outcome{{w, velocity}, {}};
    };
    compare(pass, 0, "sgd_update");
  }
}

TEST(CpuPasses, AllFiniteFindsOneBadElement) {
  const Shape shape{1, 7, 11, 301};
  for (const Isa isa : available_isas()) {
    const auto backend = make_cpu_backend({isa, 3});
    for (const DType type : {DType::f32, DType::bf16}) {
      const OwnedTensor x = random_real(shape, 1, 1, type);
      EXPECT_TRUE(backend->all_finite(x));
      for (const float bad : {INFINITY, -INFINITY, NAN}) {
        for (const int64_t at : {int64_t{0}, int64_t{16390}, x.elements() - 1}) {
          const auto set = [&](float value) {
            if (type == DType::bf16) x.view().as<uint16_t>()[at] = to_bf16(value);
            if (type == DType::f32) x.f32()[at] = value;
          };
          set(bad);
          EXPECT_FALSE(backend->all_finite(x)) << name_of(isa) << " " << bad << " at " << at;
          set(1);
        }
      }
    }
  }
}

TEST(CpuPasses, SoftmaxLoss) {
  const OwnedTensor logits = random_real({37, 1, 1, 11}, 4, 5);
  std::vector<int32_t> labels;
  for (int i = 0; i < 37; ++i) labels.push_back(i % 12 - 1);
  const auto pass = [&](Backend& backend) {
    const OwnedTensor gradient(logits.view().shape), sum({1, 1, 1, 1});
    LossReport report;
    backend.softmax_loss(logits, labels.data(), 0.1f, 0.01f, gradient, &report);
    sum.f32()[0] = static_cast<float>(report.loss_sum);
    return Outcome{{gradient, sum},
                   {static_cast<uint64_t>(report.hits[0]), static_cast<uint64_t>(report.hits[1]),
                    static_cast<uint64_t>(report.count)}};
  };
  compare(pass, 0, "softmax_loss");
}

TEST(CpuPasses, Concatenation) {
  const Shape first{2, 5, 3, 17}, second{2, 5, 3, 64}, whole{2, 5, 3, 81};
  for (const DType type : {DType::s8, DType::u8, DType::f32}) {
    const bool quantized = !is_real(type);
    const auto part = [&](Shape shape, uint32_t seed, int qmax) {
      return type == DType::u8   ? random_unsigned_codes(shape, seed)
             : type == DType::s8 ? random_codes(shape, seed, qmax)
                                 : random_real_operand(shape, seed);
    };
    const OwnedQTensor a = part(first, 3, 3), b = part(second, 4, 7);
    const OwnedTensor dy = random_real(whole, 5, 1, quantized ? DType::bf16 : DType::f32);
    const auto pass = [&](Backend& backend) {
      Outcome outcome;
      const OwnedQTensor y(OwnedTensor(whole, type));
      const OwnedTensor da = random_real(first, 6, 1, quantized ? DType::bf16 : DType::f32),
                        db = random_real(second, 7);
      const QTensor parts[] = {a, b};
      const Into into[] = {{da, true}, {db, false}};
      backend.concat_forward(parts, y);
      backend.concat_backward(dy, into);
      keep(outcome, y);
      for (const OwnedTensor& tensor : {da, db}) outcome.tensors.push_back(tensor);
      return outcome;
    };
    compare(pass, 0, say("concatenation of ", octet::name_of(type)));
  }
}

TEST(CpuPasses, Pools) {
  for (const bool max : {true, false}) {
    for (const int64_t channels : {1, 17, 64, 70}) {
      PoolProblem problem{{3, 9, 7, channels}, {}, 3, 2, 1, max, channels == 17};
      problem.y = {3, output_extent(9, 3, 2, 1), output_extent(7, 3, 2, 1), channels};
      for (const DType type : {DType::s8, DType::u8, DType::f32}) {
        const bool quantized = !is_real(type);
        const OwnedQTensor x = type == DType::u8   ? random_unsigned_codes(problem.x, 3)
                               : type == DType::s8 ? random_codes(problem.x, 3, 3)
                                                   : random_real_operand(problem.x, 3);
        const OwnedTensor dy = random_real(problem.y, 4, 1, quantized ? DType::bf16 : DType::f32);
        const OwnedTensor dy_global = random_real({3, 1, 1, channels}, 5, 1, quantized ? DType::bf16 : DType::f32);
        const auto pass = [&](Backend& backend) {
          Outcome outcome;
          const OwnedQTensor y(OwnedTensor(problem.y, type));
          const OwnedTensor dx = random_real(problem.x, 6, 1, quantized ? DType::f32 : DType::bf16);
          const OwnedTensor mean({3, 1, 1, channels}), dx_global = random_real(problem.x, 7);
          backend.pool_forward(problem, x, y);
          backend.pool_backward(problem, x, y, dy, {dx, quantized});
          backend.global_pool_forward(x, mean);
          backend.global_pool_backward(dy_global, {dx_global, quantized});
          keep(outcome, y);
          for (const OwnedTensor& tensor : {dx, mean, dx_global}) outcome.tensors.push_back(tensor);
          return outcome;
        };
        compare(pass, 0, say("pool of ", channels, " channels, max ", max, ", ", octet::name_of(type)));
      }
    }
  }
}

// Kernels draw no bits for unsigned codes, which would come out rounded to nearest.
TEST(CpuPasses, RefusesUnsignedCodesRoundedStochastically) {
  const Shape shape{1, 2, 2, 4};
  const Norm norm(shape.c);
  const OwnedTensor real = random_real(shape, 1);
  const OwnedConvolved x(shape, 2, DType::f32);
  const Encoding encoding{.dtype = DType::u8, .qmax = 255, .rounding = Rounding::stochastic};
  const OwnedQTensor to = room_for(encoding, shape);
  const AffineProblem problem{shape};
  const auto cpu = make_cpu_backend({Isa::scalar, 1}), reference = make_reference_backend();
  for (Backend* backend : {cpu.get(), reference.get()}) {
    EXPECT_THROW(backend->quantize(real, encoding, {}, to, {}), Error);
    EXPECT_THROW(backend->affine_forward(problem, x, norm.moments, norm.parameters(), {}, encoding, {}, to), Error);
    EXPECT_THROW(backend->affine_backward(problem, x, norm.moments, norm.parameters(), {}, real, {}, {}, {}, encoding,
                                          {}, to, {}),
                 Error);
  }
}

TEST(CpuPasses, AllocatesZeroedAlignedMemory) {
  const auto backend = make_cpu_backend({Isa::scalar, 2});
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{5000001}}) {
    const auto buffer = backend->allocate(bytes);
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(static_cast<char*>(buffer->data())[i], 0);
  }
}

TEST(CpuPasses, ExceptionsOfThreadsReachTheCaller) {
  for (const int threads : {1, 3}) {
    std::atomic<int> calls = 0;
    const auto fail = [&](int64_t i) {
      ++calls;
      if (i % 2 == 1) throw std::bad_alloc();
    };
    EXPECT_THROW(cpu::parallel_for(threads, 7, fail), std::bad_alloc);
    EXPECT_EQ(calls, 7);
  }
}

TEST(CpuPasses, RefusesWhatItCannotRun) {
  EXPECT_THROW(make_cpu_backend({Isa::scalar, 0}), Error);
  const auto backend = make_cpu_backend({Isa::scalar, 1});
  const float held = 0;
  const OwnedTensor x({1, 1, 1, 4});
  const Encoding encoding = codes(Rounding::nearest, Range::held, &held);
  EXPECT_THROW(backend->quantize(x, encoding, {}, room_for(encoding, x.view().shape), {}), Error);
  const int32_t label = 4;
  LossReport report;
  EXPECT_THROW(backend->softmax_loss(x, &label, 0, 1, {}, &report), Error);
}

}  // namespace
}  // namespace octet::test
