// Norm, residual, activation and encoding in one pass, and its backward, on the CPU backend: the same bits on every
// instruction set and with any number of threads.
#include "tests/kernels/passes.h"
#include "tests/kernels/random_problems.h"

namespace octet::test::passes {
namespace {

// A gradient of ones where the mask lets it pass, else zeros.
OwnedTensor passed(Backend& backend, Activation activation, Tensor mask, Shape shape) {
  const OwnedTensor ones(shape), passed(shape);
  for (int64_t i = 0; i < shape.elements(); ++i) ones.f32()[i] = 1;
  const AffineProblem problem{.shape = shape, .normalize = false, .activation = activation};
  backend.affine_backward({.problem = problem, .x = ones, .mask = mask, .dy = ones, .grad_output = {passed}});
  return passed;
}

// normalize: by the encoding.
void compare_forward(Shape shape, DType type, Activation activation, Other other, const Encoding& encoding) {
  const Norm norm(shape.c);
  const bool keeps = activation != Activation::relu6;
  const OwnedQTensor residual = other_tensor(other, shape, 6, 1);
  AffineProblem problem{shape};
  problem.activation = activation;
  problem.normalize = encoding.rounding == Rounding::nearest;
  const auto pass = [&](Backend& backend) {
    Outcome outcome;
    const OwnedQTensor y = room_for(encoding, shape);
    OwnedConvolved x(shape, 5, type);
    if (keeps) x.with_codes();
    uint64_t saturated = 0;
    float largest = 0;
    const bool measures = encoding.quantized() && encoding.rounding == Rounding::nearest;
    // A range that is measured has no value beyond it; `norm` does not hold the extremes of x, from which it follows.
    const bool counts = encoding.range == Range::held;
    const Probe probe{.saturated = counts ? &saturated : nullptr, .largest = &largest};
    OwnedTensor mask;
    if (activation != Activation::none) mask = OwnedTensor(mask_shape(shape), DType::u8);
    backend.affine_forward({problem,
                            x,
                            norm.moments,
                            norm.parameters(),
                            residual,
                            encoding,
                            {1, 2, 3, 40},
                            y,
                            measures ? probe : Probe{},
                            mask});
    outcome.tensors.push_back(passed(backend, activation, mask, shape));
    keep(outcome, y);
    outcome.counts = {saturated, bits_of(largest)};
    if (keeps) outcome.tensors.insert(outcome.tensors.end(), {x.codes, x.units});
    return outcome;
  };
  compare(pass, 0,
          say("affine_forward ", name_of(shape), " ", octet::name_of(type), " activation ",
              static_cast<int>(activation), " residual ", static_cast<int>(other)));
}

TEST(CpuAffine, AffineForward) {
  const float held = 1.7f;
  const Encoding encodings[] = {codes(Rounding::nearest, Range::absmax),
                                codes(Rounding::stochastic, Range::held, &held),
                                codes(Rounding::nearest, Range::held, &held),
                                Encoding{.dtype = DType::u8, .qmax = 255},
                                Encoding{DType::u8, 255, Rounding::nearest, Range::held, &held},
                                Encoding{}};
  // Two encodings each time, other ones at the next shape, so that everything meets every encoding at four shapes.
  size_t turn = 0;
  for (const Shape shape : shapes()) {
    for (const DType type : {DType::f32, DType::bf16})
      for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6})
        for (const Other other : others)
          for (int i = 0; i < 2; ++i) compare_forward(shape, type, activation, other, encodings[turn++ % 6]);
    turn += 2;
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
  bool drawn = false;
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
    const OwnedTensor mask = mask_of(backend, problem, x.real, norm.moments, norm.parameters(), residual);
    backend.affine_backward({problem,
                             x,
                             norm.moments,
                             norm.parameters(),
                             mask,
                             dy,
                             b.parameters && b.normalize ? Into{d_gamma, b.add} : Into{},
                             b.parameters ? Into{d_beta, b.add} : Into{},
                             Into{d_residual, b.add},
                             encoding,
                             {1, 2, 3, 4096},
                             error,
                             {b.histogram ? histogram.data() : nullptr, &saturated, b.add ? 3 : 1}});
    keep(outcome, error);
    outcome.tensors.push_back(d_gamma);
    outcome.tensors.push_back(d_beta);
    if (b.d_residual != DType::s8) outcome.tensors.push_back(d_residual);
    outcome.counts.assign(histogram.begin(), histogram.end());
    outcome.counts.push_back(saturated);
    return outcome;
  };
  const std::string what =
      say("affine_backward ", name_of(shape), " x ", octet::name_of(b.x), " dy ", octet::name_of(b.dy), " activation ",
          static_cast<int>(b.activation), " residual ", static_cast<int>(b.residual), " normalize ", b.normalize);
  const bool exact = !b.batch_statistics && !b.parameters;  // no sum enters
  // A chunk adds 64 numbers in float with at most 11 roundings of each: relative error 12 * 2^-24 of the sum of
  // magnitudes, with that of a product; the mean times the other sum errs as much. For random signs the magnitudes are
  // about sqrt(pixels) times the sum. d_gamma and d_beta therefore get 1e-4 of the largest, unless problems are drawn:
  // then a sum may come out far smaller.
  if (exact || !b.drawn)
    compare(pass, exact ? 0 : 1e-4f, what);
  else
    same_everywhere(pass, what);
}

TEST(CpuAffine, AffineBackward) {
  const float held = 0.1f;
  const Encoding stochastic = codes(Rounding::stochastic, Range::held, &held);
  // Two residuals each time, the others at the next shape, so that everything meets every residual at six shapes.
  size_t turn = 0;
  for (const Shape shape : shapes()) {
    for (const DType x : {DType::f32, DType::bf16, DType::s8}) {
      for (const DType dy : {DType::f32, DType::bf16}) {
        for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6}) {
          for (int i = 0; i < 2; ++i) {
            const Other residual = others[turn++ % 4];
            Backward b{x, dy, activation, residual};
            b.d_residual = residual == Other::none ? DType::s8 : x == DType::f32 ? DType::f32 : DType::bf16;
            b.add = dy == DType::bf16;
            b.histogram = x != DType::f32 && residual == Other::codes;
            compare_backward(shape, b, stochastic);
          }
        }
      }
    }
    turn += 2;
  }
}

TEST(CpuAffine, AffineBackwardOfEveryEncodingAndNorm) {
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

TEST(CpuAffine, RandomProblems) {
  for (int index = 0; index < 50; ++index) {
    Draw draw(2, index);
    const Shape shape = draw.shape();
    const float held = 0.01f * static_cast<float>(draw.between(1, 200));
    const auto activation = draw.one_of({Activation::none, Activation::relu, Activation::relu6});
    const auto other = draw.one_of({Other::none, Other::codes, Other::unsigned_codes, Other::real});
    const NamedCase scope(draw.name(name_of(shape)));
    const bool is_held = draw.coin();
    Encoding encoding = codes(Rounding::nearest, is_held ? Range::held : Range::absmax, is_held ? &held : nullptr);
    const bool is_unsigned = draw.coin();
    if (is_unsigned) encoding.dtype = DType::u8, encoding.qmax = 255;
    compare_forward(shape, draw.one_of({DType::f32, DType::bf16}), activation, other, encoding);
    Backward b{draw.one_of({DType::f32, DType::bf16, DType::s8}), draw.one_of({DType::f32, DType::bf16}), activation,
               other};
    b.batch_statistics = b.normalize = draw.coin(), b.parameters = draw.coin(), b.drawn = true;
    b.add = draw.coin(), b.histogram = draw.coin();
    b.d_residual = draw.one_of({DType::s8, DType::f32, DType::bf16});
    compare_backward(shape, b, codes(Rounding::stochastic, encoding.range, encoding.held));
    if (HasFailure()) return;
  }
}

TEST(CpuAffine, BackwardWithoutAnErrorFillsTheHistogramAlone) {
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
    backend.affine_backward({problem,
                             x,
                             norm.moments,
                             norm.parameters(),
                             {},
                             dy,
                             {d_gamma},
                             {},
                             {d_residual},
                             codes(Rounding::stochastic, Range::held, &held),
                             {},
                             {},
                             {histogram.data(), &saturated, 2}});
    return Outcome{{d_gamma, d_residual}, {histogram.begin(), histogram.end()}};
  };
  compare(pass, 0, "histogram");
}

TEST(CpuAffine, GradientMayReplaceWhatItCameFrom) {
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
    const OwnedTensor mask = mask_of(backend, problem, x, norm.moments, norm.parameters(), residual);
    backend.affine_backward({problem, x, norm.moments, norm.parameters(), mask, dy, {}, {}, {dy}, {}, {}, error, {}});
    return Outcome{{dy, error.values()}, {}};
  };
  compare(pass, 0, "d_residual in dy's place");
}

}  // namespace
}  // namespace octet::test::passes
