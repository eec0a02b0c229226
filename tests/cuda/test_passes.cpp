// The elementwise passes, pools, losses and updates of the CUDA backend against the CPU's, to the last bit.
#include <cmath>

#include "tests/cuda/compare.h"

namespace octet::test {
namespace {

// Odd numbers of pixels; more than one group of 64 chunks of 64 in some.
std::vector<Shape> shapes() {
  return {{1, 1, 1, 1},    {3, 37, 53, 1}, {1, 3, 5, 3},    {3, 71, 77, 3}, {2, 9, 7, 16}, {3, 25, 29, 17},
          {3, 21, 23, 24}, {1, 1, 1, 64},  {7, 13, 11, 64}, {2, 3, 3, 130}, {1, 5, 7, 96}, {1, 7, 9, 144}};
}
std::string name_of(Shape s) { return say(s.n, "x", s.h, "x", s.w, "x", s.c); }

Encoding codes(Rounding rounding, Range range, const float* held = nullptr, int qmax = 127) {
  return {DType::s8, qmax, rounding, range, held};
}

bool measures(const Encoding& encoding) { return encoding.quantized() && encoding.rounding == Rounding::nearest; }

struct Observed {
  Tensor histogram, saturated, largest;
  explicit Observed(Place& place)
      : histogram(place.zeros({1, 1, 1, histogram_bins})),
        saturated(place.zeros({1, 1, 1, 2})),
        largest(place.zeros({1, 1, 1, 1})) {}
  Probe probe(bool with_histogram, int sample = 1, bool with_largest = false) const {
    return {with_histogram ? histogram.as<uint32_t>() : nullptr, saturated.as<uint64_t>(), sample,
            with_largest ? largest.f32() : nullptr};
  }
  void keep(Place& place) const {
    place.keep("histogram", histogram), place.keep("saturated", saturated), place.keep("largest", largest);
  }
};

TEST(CudaPasses, Quantize) {
  const float held = 0.3f;
  const std::vector<Encoding> encodings = {codes(Rounding::nearest, Range::absmax),
                                           codes(Rounding::stochastic, Range::absmax),
                                           codes(Rounding::stochastic, Range::held, &held),
                                           codes(Rounding::nearest, Range::held, &held),
                                           codes(Rounding::nearest, Range::absmax, nullptr, 7),
                                           Encoding{}};

  for (const Shape shape : shapes())
    for (const DType type : {DType::f32, DType::bf16}) {
      const OwnedTensor from = random_real(shape, 5, 0.7f, type);
      for (const Encoding& encoding : encodings)
        for (const uint64_t first : {uint64_t{0}, uint64_t{1000003}, uint64_t{1000008}})  // the last: eight at a time
          expect_same(say("quantize ", name_of(shape), " ", octet::name_of(type)), [&](Place& place) {
            const QTensor to = place.zeros_for(encoding, shape);
            const Observed observed(place);
            place.backend.quantize({place.copy(from.view()),
                                    place.copy(encoding),
                                    {9, 8, 7, first},
                                    to,
                                    observed.probe(first == 0, 1, measures(encoding))});
            place.keep("codes", to);
            observed.keep(place);
          });
    }
}

// Numbers so small that the CPU's passes take them for zero.
TEST(CudaPasses, SubnormalNumbersAreZero) {
  OwnedTensor from({1, 1, 1, 200});
  for (int64_t i = 0; i < 200; ++i) from.f32()[i] = float_of(static_cast<uint32_t>(i * 7919)) * (i % 2 ? 1 : -1);
  const Encoding encoding = codes(Rounding::nearest, Range::absmax);
  expect_same("quantize subnormal numbers", [&](Place& place) {
    const QTensor to = place.zeros_for(encoding, from.view().shape);
    place.backend.quantize({place.copy(from.view()), encoding, {}, to, {}});
    place.keep("codes", to);
  });
}

enum class Other { none, codes, unsigned_codes, real };
constexpr Other others[] = {Other::none, Other::codes, Other::unsigned_codes, Other::real};
OwnedQTensor other_tensor(Other other, Shape shape, uint32_t seed) {
  return other == Other::none             ? OwnedQTensor()
         : other == Other::codes          ? random_codes(shape, seed)
         : other == Other::unsigned_codes ? random_unsigned_codes(shape, seed)
                                          : random_real_operand(shape, seed);
}

TEST(CudaPasses, AffineForward) {
  const float held = 1.7f;
  for (const Shape shape : shapes()) {
    const NormOperands norm(shape.c);
    const OwnedTensor ones(shape);
    std::fill_n(ones.f32(), shape.elements(), 1.0f);
    for (const DType type : {DType::f32, DType::bf16}) {
      const OwnedConvolved x = OwnedConvolved(shape, 5, type).with_codes();
      for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6})
        for (const Other other : others)
          for (const Encoding& encoding :
               {codes(Rounding::nearest, Range::absmax), codes(Rounding::stochastic, Range::held, &held),
                codes(Rounding::nearest, Range::held, &held), Encoding{.dtype = DType::u8, .qmax = 255},
                Encoding{DType::u8, 255, Rounding::nearest, Range::held, &held}, Encoding{}}) {
            AffineProblem problem{shape};
            problem.activation = activation;
            problem.normalize = encoding.rounding == Rounding::nearest;
            const OwnedQTensor residual = other_tensor(other, shape, 6);
            expect_same(say("affine forward ", name_of(shape), " activation ", static_cast<int>(activation)),
                        [&](Place& place) {
                          const QTensor y = place.zeros_for(encoding, shape);
                          AffineParameters parameters = place.parameters(norm);
                          if (!problem.normalize) parameters.gamma = nullptr;
                          const Convolved input = place.copy(x);
                          const Observed observed(place);
                          const Probe probe = measures(encoding) ? observed.probe(false, 1, true) : Probe{};
                          const bool masks = activation != Activation::none;
                          const Tensor mask = masks ? place.zeros(mask_shape(shape), DType::u8) : Tensor{};
                          place.backend.affine_forward({problem,
                                                        input,
                                                        place.copy(norm.moments, shape.c),
                                                        parameters,
                                                        other == Other::none ? QTensor{} : place.copy(residual.view()),
                                                        place.copy(encoding),
                                                        {1, 2, 3, 40},
                                                        y,
                                                        probe,
                                                        mask});
                          const Tensor passed = place.zeros(shape);
                          place.backend.affine_backward({.problem = {shape, false, true, 0, activation},
                                                         .x = input.real,
                                                         .mask = mask,
                                                         .dy = place.copy(ones.view()),
                                                         .grad_output = {passed}});
                          place.keep("what the mask passes", passed);
                          observed.keep(place);
                          place.keep("y", y), place.keep("codes", input.codes);
                          place.keep("units", Tensor{input.scale, {1, 1, 2, shape.c}});
                        });
          }
    }
  }
}

void expect_same_backward(AffineProblem problem, DType type, Other other, const Encoding& encoding, bool add,
                          bool measure_only = false) {
  const Shape shape = problem.shape;
  const NormOperands norm(shape.c);
  const DType real = type == DType::s8 ? DType::bf16 : type;
  OwnedConvolved x(shape, 5, real);
  if (type == DType::s8) x.codes = random_codes(shape, 5).values(), x.units = random_units(shape.c);
  const OwnedTensor dy = random_real(shape, 8, 0.02f, real), d_residual0 = random_real(shape, 9, 0.02f, real);
  const OwnedQTensor residual = other_tensor(other, shape, 6);
  expect_same(
      say("affine backward ", name_of(shape), " activation ", static_cast<int>(problem.activation), " other ",
          static_cast<int>(other)),
      [&](Place& place) {
        const QTensor error = place.zeros_for(encoding, shape);
        const Tensor d_gamma = place.copy(norm.gamma.view()), d_beta = place.copy(norm.beta.view());
        const Tensor d_residual = place.copy(d_residual0.view());
        const Observed observed(place);
        AffineParameters parameters = place.parameters(norm);
        if (!problem.normalize) parameters.gamma = nullptr;
        const Moments moments = place.copy(norm.moments, shape.c);
        Tensor mask;
        if (problem.activation != Activation::none) {
          const QTensor added = other == Other::none ? QTensor{} : place.copy(residual.view());
          mask = place.zeros(mask_shape(shape), DType::u8);
          place.backend.affine_forward(
              {problem, place.copy(x.real.view()), moments, parameters, added, {}, {}, {place.zeros(shape)}, {}, mask});
        }
        place.backend.affine_backward({problem,
                                       type == DType::s8 ? place.copy(x) : Convolved(place.copy(x.real.view())),
                                       moments,
                                       parameters,
                                       mask,
                                       place.copy(dy.view()),
                                       {d_gamma, add},
                                       {d_beta, add},
                                       other != Other::none ? Into{d_residual, add} : Into{},
                                       place.copy(encoding),
                                       {1, 2, 3, 4000},
                                       measure_only ? QTensor{} : error,
                                       observed.probe(add || measure_only, 2)});
        place.keep("error", error), place.keep("d_gamma", d_gamma), place.keep("d_beta", d_beta);
        place.keep("d_residual", d_residual);
        observed.keep(place);
      });
}

TEST(CudaPasses, AffineBackward) {
  const float held = 0.01f;
  const Encoding stochastic = codes(Rounding::stochastic, Range::held, &held);
  bool add = false;
  for (const Shape shape : shapes())
    for (const DType type : {DType::f32, DType::bf16, DType::s8})
      for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6})
        for (const Other other : others) {
          AffineProblem problem{shape};
          problem.activation = activation;
          expect_same_backward(problem, type, other, stochastic, add);
          add = !add;
        }
}

TEST(CudaPasses, AffineBackwardOfEveryEncodingAndNorm) {
  const float held = 0.01f;
  for (const Encoding& encoding :
       {codes(Rounding::stochastic, Range::absmax), codes(Rounding::nearest, Range::held, &held),
        codes(Rounding::stochastic, Range::absmax, nullptr, 7), Encoding{}})
    for (const bool normalize : {false, true})
      for (const bool batch_statistics : {false, true}) {
        AffineProblem problem{{3, 25, 29, 17}};
        problem.normalize = normalize;
        problem.batch_statistics = batch_statistics;
        problem.activation = Activation::relu;
        expect_same_backward(problem, DType::f32, Other::none, encoding, false);
        expect_same_backward(problem, DType::bf16, Other::codes, encoding, true);
        expect_same_backward(problem, DType::s8, Other::none, encoding, true);
      }
}

// An odd number of channels, whose sums have 80,002 columns of blocks: more than the second extent of a CUDA grid
// allows.
TEST(CudaPasses, WideGridOfAffineSums) {
  AffineProblem problem{{2, 1, 1, 40001}};
  problem.normalize = false;
  expect_same_backward(problem, DType::f32, Other::none, Encoding{}, false);
}

TEST(CudaPasses, BackwardWithoutAnErrorFillsTheHistogramAlone) {
  AffineProblem problem{{3, 21, 23, 24}};
  problem.activation = Activation::relu;
  const float unknown = 0;
  expect_same_backward(problem, DType::bf16, Other::codes, codes(Rounding::stochastic, Range::held, &unknown), true,
                       true);
}

// More tensors than one launch takes; among them some that are encoded one by one.
TEST(CudaPasses, QuantizesManyTensors) {
  const float held = 0.7f;
  expect_same("quantize_all", [&](Place& place) {
    std::vector<QuantizeCall> calls;
    const float* const clip = place.copy(&held, 1);
    for (uint32_t i = 0; i < 131; ++i) {
      const Shape shape{1, 1, 1, i == 0 ? 5000 : 1 + i * i % 1100};
      Encoding encoding = codes(i % 10 == 3 ? Rounding::stochastic : Rounding::nearest, Range::absmax);
      if (i % 4 == 1) encoding.range = Range::held, encoding.held = clip;
      if (i % 5 == 2) encoding.qmax = 7;
      calls.push_back(
          {place.copy(random_real(shape, i).view()), encoding, {1, 2, i}, place.zeros_for(encoding, shape)});
    }
    place.backend.quantize_all(calls);
    for (size_t i = 0; i < calls.size(); ++i) place.keep(say("codes ", i), calls[i].to);
  });
}

// More parameters than one launch takes, from one element to several blocks.
TEST(CudaPasses, UpdatesOfWeightsAndStatistics) {
  const Shape shape{17, 3, 3, 29};
  const float scale = 0.7f;
  for (const bool nesterov : {false, true})
    expect_same("sgd", [&](Place& place) {
      std::vector<SgdStep> steps;
      for (uint32_t i = 0; i < 101; ++i) {
        const Shape own{1, 1, 1, i == 0 ? shape.elements() : 1 + i * i % 1100};
        const OwnedTensor w = random_real(own, 3 * i), gradient = random_real(own, 3 * i + 1, 0.1f);
        const OwnedTensor velocity = random_real(own, 3 * i + 2);
        steps.push_back({{0.1f, 0.9f, 1e-4f, nesterov, i % 2 == 0 ? 1.3f : 1.0f},
                         place.copy(w.view()),
                         place.copy(gradient.view()),
                         place.copy(velocity.view()),
                         i % 3 == 0 ? place.copy(&scale, 1) : nullptr});
      }
      place.backend.sgd_update(steps);
      place.backend.move_average(0.3f, steps[0].w, steps[0].gradient);
      place.keep("average", steps[0].gradient);
      for (size_t i = 0; i < steps.size(); ++i)
        place.keep(say("w ", i), steps[i].w), place.keep(say("velocity ", i), steps[i].velocity);
    });
  expect_same("adamw", [&](Place& place) {
    std::vector<AdamWStep> steps;
    for (uint32_t i = 0; i < 101; ++i) {
      const Shape own{1, 1, 1, i == 0 ? shape.elements() : 1 + i * i % 1100};
      const OwnedTensor w = random_real(own, 4 * i), gradient = random_real(own, 4 * i + 1, 0.1f);
      const OwnedTensor mean = random_real(own, 4 * i + 2), square = random_real(own, 4 * i + 3);
      for (int64_t k = 0; k < own.elements(); ++k) square.f32()[k] *= square.f32()[k];
      steps.push_back({{0.1f, 0.9f, 0.99f, 1e-6f, 0.05f, i % 2 == 0 ? 1.3f : 1.0f, {0.4f, 0.2f}},
                       place.copy(w.view()),
                       place.copy(gradient.view()),
                       place.copy(mean.view()),
                       place.copy(square.view()),
                       i % 3 == 0 ? place.copy(&scale, 1) : nullptr});
    }
    place.backend.adamw_update(steps);
    for (size_t i = 0; i < steps.size(); ++i)
      place.keep(say("w ", i), steps[i].w), place.keep(say("mean ", i), steps[i].mean),
          place.keep(say("square ", i), steps[i].square);
  });
  expect_same("running statistics", [&](Place& place) {
    std::vector<RunningStep> steps;  // more than one launch takes
    for (int64_t i = 0; i < 70; ++i) {
      const NormOperands norm(1 + 13 * i);
      steps.push_back({place.copy(norm.moments, 1 + 13 * i), 1 + 76 * (i % 2), 0.1f, place.copy(norm.gamma.view()),
                       place.copy(norm.beta.view())});
    }
    place.backend.update_running(steps);
    for (const RunningStep& step : steps) place.keep("mean", step.mean), place.keep("variance", step.variance);
  });
}

TEST(CudaPasses, AllFiniteFindsOneBadElement) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const int64_t at : {int64_t{-1}, int64_t{0}, int64_t{1000}, int64_t{20000}}) {
      Place place(cuda_backend());
      const OwnedTensor x = random_real({1, 1, 1, 20001}, 3, 1, type);
      const float bad = at % 3 == 0 ? NAN : INFINITY;
      if (at >= 0 && type == DType::f32) x.f32()[at] = bad;
      if (at >= 0 && type == DType::bf16) x.view().as<uint16_t>()[at] = to_bf16(bad);
      EXPECT_EQ(cuda_backend().all_finite(place.copy(x.view())), at < 0) << at;
    }
}

TEST(CudaPasses, SoftmaxLoss) {
  const int64_t rows = 300;  // three rounds of the kernel's threads
  const OwnedTensor logits = random_real({rows, 1, 1, 13}, 4, 9);
  std::vector<int32_t> labels(rows);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = i % 5 == 4 ? -1 : static_cast<int32_t>(i % 13);
  for (const float smoothing : {0.0f, 0.1f})
    expect_same("softmax loss", [&](Place& place) {
      const Tensor d_logits = place.zeros({rows, 1, 1, 13}), report = place.zeros({1, 1, 1, sizeof(LossReport) / 4});
      place.backend.softmax_loss({place.copy(logits.view()), place.copy(labels.data(), labels.size()), nullptr,
                                  smoothing, 1.0f / 64, d_logits, report.as<LossReport>()});
      place.keep("d_logits", d_logits), place.keep("report", report);
    });
}

TEST(CudaPasses, Pools) {
  const auto pooled = [](Shape x, int kernel, int stride, int pad, PoolKind kind, bool count_padding = false) {
    PoolProblem p{x, {}, kernel, stride, pad, kind, count_padding, kind == PoolKind::max && kernel == 3 && stride == 1};
    p.y = pooled_shape(p);
    return p;
  };
  for (const PoolKind kind : {PoolKind::max, PoolKind::average, PoolKind::repeat})
    for (const PoolProblem& p : {pooled({2, 11, 9, 5}, 3, 2, 1, kind), pooled({3, 8, 8, 70}, 2, 2, 0, kind),
                                 pooled({1, 7, 6, 16}, 3, 1, 1, kind), pooled({1, 7, 6, 16}, 3, 1, 1, kind, true),
                                 pooled({2, 9, 13, 32}, 3, 2, 1, kind)})
      for (const DType type : {DType::s8, DType::u8, DType::f32, DType::bf16}) {
        const OwnedQTensor x = type == DType::s8   ? random_codes(p.x, 1, 3)  // ties
                               : type == DType::u8 ? random_unsigned_codes(p.x, 1)
                                                   : OwnedQTensor(random_real(p.x, 1, 1, type));
        const DType real = is_real(type) ? type : DType::bf16;
        const OwnedTensor dy = random_real(p.y, 2, 1, real), dx0 = random_real(p.x, 3, 1, real);
        for (const bool add : {false, true})
          expect_same(say("pool ", name_of(p.x), " kernel ", p.kernel, " ", octet::name_of(type)), [&](Place& place) {
            const QTensor from = place.copy(x.view());
            QTensor y{place.zeros(p.y, type)};
            if (!is_real(type)) y.scale = place.zeros({1, 1, 1, 1}).f32();
            const Tensor dx = place.copy(dx0.view());
            const Tensor choices = kind == PoolKind::max ? place.zeros(p.y, DType::u8) : Tensor{};
            if (add) place.backend.pool_forward({p, from, y});
            place.backend.pool_forward({p, from, y, choices});
            place.backend.pool_backward({p, choices, place.copy(dy.view()), {dx, add}});
            if (choices) place.keep("choices", choices);
            const Tensor mean = place.zeros({p.x.n, 1, 1, p.x.c}), spread = place.copy(dx0.view());
            place.backend.global_pool_forward({from, mean});
            place.backend.global_pool_backward({mean, {spread, add}});
            place.keep("y", y), place.keep("dx", dx), place.keep("mean", mean), place.keep("spread", spread);
          });
      }
}

TEST(CudaPasses, Dropout) {
  const Shape shape{2, 5, 7, 23};
  for (const DType type : {DType::s8, DType::f32, DType::bf16})
    for (const uint64_t first : {uint64_t{0}, uint64_t{4000}, uint64_t{777}}) {
      const OwnedQTensor x = type == DType::s8 ? random_codes(shape, 1) : OwnedQTensor(random_real(shape, 1, 1, type));
      const OwnedTensor dy = random_real(shape, 2, 1, type == DType::s8 ? DType::bf16 : type),
                        dx0 = random_real(shape, 3, 1, type == DType::s8 ? DType::bf16 : type);
      expect_same(say("dropout of ", octet::name_of(type), " from element ", first), [&](Place& place) {
        QTensor y{place.zeros(shape, type)};
        if (type == DType::s8) y.scale = place.zeros({1, 1, 1, 1}).f32();
        const Tensor dx = place.copy(dx0.view());
        const float rate = first == 0 ? 0.0f : 0.3f;
        place.backend.dropout_forward({place.copy(x.view()), rate, {1, 2, 3, first}, y});
        place.backend.dropout_backward({place.copy(dy.view()), rate, {1, 2, 3, first}, {dx, first == 777}});
        place.keep("y", y), place.keep("dx", dx);
      });
    }
}

TEST(CudaPasses, Concatenation) {
  for (const DType type : {DType::s8, DType::u8, DType::f32}) {
    const Shape a{2, 5, 3, 7}, b{2, 5, 3, 16}, c{2, 5, 3, 1}, all{2, 5, 3, 24};
    const auto part = [&](Shape shape, uint32_t seed) {
      return type == DType::u8   ? random_unsigned_codes(shape, seed)
             : type == DType::s8 ? random_codes(shape, seed)
                                 : random_real_operand(shape, seed);
    };
    const OwnedQTensor parts[] = {part(a, 1), part(b, 7), part(c, 11)};
    const OwnedTensor dy = random_real(all, 4, 1, DType::bf16);
    expect_same("concatenation", [&](Place& place) {
      const std::vector<QTensor> from = {place.copy(parts[0].view()), place.copy(parts[1].view()),
                                         place.copy(parts[2].view())};
      const QTensor y = place.zeros_for(Encoding{.dtype = type}, all);
      place.backend.concat_forward({from, y});
      place.keep("y", y);
      const std::vector<Into> into = {
          {place.zeros(a)}, {}, {place.copy(random_real(c, 9, 1, DType::bf16).view()), true}};
      std::vector<Into> given = into;
      given[1].tensor.shape = b;  // nobody wants it
      place.backend.concat_backward({place.copy(dy.view()), given});
      place.keep("part 0", into[0].tensor), place.keep("part 2", into[2].tensor);
    });
  }
}

TEST(CudaPasses, Memory) {
  Backend& backend = cuda_backend();
  const auto buffer = backend.allocate(1000);
  std::vector<char> bytes(1000, 1);
  backend.to_host(bytes.data(), buffer->data(), bytes.size());
  EXPECT_EQ(bytes, std::vector<char>(1000));
  EXPECT_EQ(buffer->bytes(), 1000u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
}

// What differs between steps - the key, the clip, the learning rate - reaches a recorded program through the device's
// memory.
TEST(CudaPasses, RecordedProgramsFollowTheStep) {
  const Shape shape{4, 3, 5, 7};
  const uint64_t per_sample = 3 * 5 * 7;
  const OwnedTensor from = random_real(shape, 5), gradient = random_real(shape, 6), start = random_real(shape, 7);
  int calls = 0;
  const auto four_steps = [&](Place& place) {
    float* const held = place.zeros({1, 1, 1, 2}).f32();
    const Encoding encoding = codes(Rounding::stochastic, Range::held, held);
    const Tensor source = place.copy(from.view()), slope = place.copy(gradient.view()), w = place.copy(start.view());
    const Tensor velocity = place.zeros(shape), mean = place.zeros(shape), square = place.zeros(shape);
    const QTensor to = place.zeros_for(encoding, shape), dropped = place.zeros_for(encoding, shape);
    const Observed observed(place);
    std::vector<int8_t> result(static_cast<size_t>(shape.elements()));
    for (uint32_t step = 0; step < 4; ++step) {
      const float clip_and_scale[] = {0.5f + static_cast<float>(step), 0.1f * static_cast<float>(step)};
      place.backend.to_device(held, clip_and_scale, sizeof clip_and_scale);
      const float correction = 1.0f / static_cast<float>(4 - step);
      const StepState state{step, 0.1f / static_cast<float>(1 + step), step * 40, {correction, 0.5f * correction}};
      const auto key = [&](uint32_t layer_id) {
        return RngKey{1, step, layer_id, state.first_sample * per_sample, per_sample};
      };
      place.backend.run(1, state, [&] {
        ++calls;
        place.backend.quantize({source, encoding, key(3), to, observed.probe(true)});
        place.backend.dropout_forward({to, 0.3f, key(4), dropped});
        const SgdStep update{{state.learning_rate, 0.9f, 1e-4f, false, 0.7f}, w, slope, velocity, held + 1};
        place.backend.sgd_update({&update, 1});
        const AdamWProblem problem{state.learning_rate, 0.9f, 0.99f, 1e-6f, 0.05f, 0.7f, state.corrections};
        const AdamWStep second{problem, w, slope, mean, square, held + 1};
        place.backend.adamw_update({&second, 1});
      });
      const Tensor kept = place.zeros(shape, DType::s8);
      place.backend.to_host(result.data(), dropped.values.data, result.size());
      place.backend.to_device(kept.data, result.data(), result.size());
      place.keep(say("codes of step ", step), kept);
    }
    place.keep("w", w), place.keep("velocity", velocity), place.keep("square", square);
    observed.keep(place);
  };
  const auto recording = make_cuda_backend({});
  Place cuda(*recording), cpu(cpu_backend());
  four_steps(cuda);
  EXPECT_EQ(calls, 2) << "once as it is, once to be recorded";
  four_steps(cpu);
  EXPECT_EQ(calls, 6);
  for (size_t i = 0; i < cpu.kept().size(); ++i)
    expect_equal(cuda.backend, cuda.kept()[i].tensor, cpu.kept()[i].tensor, cpu.kept()[i].name);
}

TEST(CudaPasses, AProgramOfAnotherStepIsRefused) {
  const auto backend = make_cuda_backend({});
  Place place(*backend);
  const Shape shape{1, 2, 3, 4};
  const Encoding encoding = codes(Rounding::stochastic, Range::absmax);
  const Tensor from = place.zeros(shape);
  const QTensor to = place.zeros_for(encoding, shape);
  const auto work = [&] { backend->quantize({from, encoding, {1, 7, 3, 24, 24}, to, {}}); };
  backend->run(1, {7, 0, 1}, work);
  EXPECT_THROW(backend->run(1, {7, 0, 2}, work), Error);
  EXPECT_THROW(backend->run(1, {8, 0, 1}, work), Error);
  backend->run(1, {7, 0, 1}, work);
}

}  // namespace
}  // namespace octet::test
