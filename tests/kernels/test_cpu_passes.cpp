// The elementwise passes of the CPU backend: the same bits on every instruction set and with any number of threads, and
// those of the reference but for the order of sums.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <new>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/passes.h"
#include "kernels/shared/fixed_point.h"
#include "tests/kernels/passes.h"
#include "tests/kernels/random_problems.h"

namespace octet::test::passes {
namespace {

TEST(CpuPasses, RandomBitsAreThoseOfTheDefinition) {
  const RngKey key{0x123456789ABCDEF0u, 77, 0x80000005u, 0};
  for (const Isa isa : available_isas()) {
    for (const uint64_t group :
         {uint64_t{0}, uint64_t{5}, uint64_t{0xFFFFFFF}, uint64_t{0x10000000}, uint64_t{1} << 40}) {
      std::vector<uint16_t> bits(3 * 256);
      cpu::kernels_of(isa).passes->random_bits(key, group, 3, bits.data());
      for (uint64_t i = 0; i < bits.size(); ++i)
        ASSERT_EQ(bits[i], random_bits16(key, group * 256 + i)) << name_of(isa) << " group " << group << " bit " << i;
    }
  }
}

// first: the place of the first element among the random bits; without a histogram unless it is 0.
void compare_quantize(Shape shape, DType type, const Encoding& encoding, uint64_t first, uint32_t seed) {
  const OwnedTensor from = random_real(shape, seed, 0.7f, type);
  const auto pass = [&](Backend& backend) {
    Outcome outcome;
    const OwnedQTensor to = room_for(encoding, shape);
    std::vector<uint32_t> histogram(histogram_bins);
    uint64_t saturated = 0;
    float largest = 0.1f;
    const bool measures = encoding.quantized() && encoding.rounding == Rounding::nearest;
    const Probe probe{first == 0 ? histogram.data() : nullptr, &saturated, 2, measures ? &largest : nullptr};
    backend.quantize({from, encoding, {9, 8, 7, first}, to, probe});
    keep(outcome, to);
    outcome.counts.assign(histogram.begin(), histogram.end());
    outcome.counts.insert(outcome.counts.end(), {saturated, bits_of(largest)});
    return outcome;
  };
  compare(pass, 0, say("quantize ", name_of(shape), " ", octet::name_of(type)));
}

TEST(CpuPasses, Quantize) {
  const float held = 0.3f;
  for (const Shape shape : shapes())
    for (const DType type : {DType::f32, DType::bf16})
      for (const Encoding& encoding :
           {codes(Rounding::nearest, Range::absmax), codes(Rounding::stochastic, Range::absmax),
            codes(Rounding::stochastic, Range::held, &held), codes(Rounding::nearest, Range::held, &held),
            codes(Rounding::nearest, Range::absmax, nullptr, 7), Encoding{}})
        for (const uint64_t first : {uint64_t{0}, uint64_t{1000003}}) compare_quantize(shape, type, encoding, first, 5);
}

TEST(CpuPasses, QuantizeRandomProblems) {
  for (int index = 0; index < 100; ++index) {
    Draw draw(3, index);
    const Shape shape = draw.shape();
    const NamedCase scope(draw.name(name_of(shape)));
    const float held = 0.01f * static_cast<float>(draw.between(1, 200));
    const bool is_held = draw.coin();
    const Encoding encoding =
        codes(draw.coin() ? Rounding::nearest : Rounding::stochastic, is_held ? Range::held : Range::absmax,
              is_held ? &held : nullptr, draw.one_of({127, 127, 63, 31, 15, 7, 3, 1}));
    const auto first = static_cast<uint64_t>(draw.coin() ? 0 : draw.between(1, 1 << 30));
    compare_quantize(shape, draw.one_of({DType::f32, DType::bf16}), encoding, first, draw.seed());
    if (HasFailure()) return;
  }
}

TEST(CpuPasses, SgdUpdate) {
  for (const bool nesterov : {false, true}) {
    const float lr_scale = 0.7f;
    const Shape shape{33, 5, 7, 31};
    const auto pass = [&](Backend& backend) {
      const OwnedTensor w = random_real(shape, 1), velocity = random_real(shape, 2), gradient = random_real(shape, 3);
      const SgdStep step{{0.1f, 0.9f, 1e-4f, nesterov, 1.3f}, w, gradient, velocity, nesterov ? &lr_scale : nullptr};
      backend.sgd_update({&step, 1});
      backend.move_average(0.3f, w, gradient);
      return Outcome{{w, velocity, gradient}, {}};
    };
    compare(pass, 0, "sgd_update");
  }
}

TEST(CpuPasses, AdamWUpdate) {
  const float lr_scale = 0.7f;
  const Shape shape{33, 5, 7, 31};
  for (const float* scale : {static_cast<const float*>(nullptr), &lr_scale}) {
    const auto pass = [&](Backend& backend) {
      const OwnedTensor w = random_real(shape, 1), gradient = random_real(shape, 2), mean = random_real(shape, 3);
      const OwnedTensor square = random_real(shape, 4);
      for (int64_t i = 0; i < shape.elements(); ++i) square.f32()[i] *= square.f32()[i];
      const AdamWStep step{{0.1f, 0.9f, 0.99f, 1e-6f, 0.05f, 1.3f, {0.4f, 0.2f}}, w, gradient, mean, square, scale};
      backend.adamw_update({&step, 1});
      return Outcome{{w, mean, square}, {}};
    };
    compare(pass, 0, "adamw_update");
  }
}

TEST(CpuPasses, FixedPointSumsHaveNoOrder) {
  const Shape shape{1, 3, 71, 97};
  const std::vector<OwnedTensor> parts = {random_real(shape, 1, 1e-4f), random_real(shape, 2, 900),
                                          random_real(shape, 3)};
  const auto sum = [&](const std::vector<int>& order) {
    return [&, order](Backend& backend) {
      std::vector<int64_t> sums(size_t(shape.elements()), 7);
      int32_t beyond = 0;
      for (const int part : order) backend.add_fixed(parts[size_t(part)], sums.data(), part != order[0], &beyond);
      const OwnedTensor values(shape);
      backend.read_fixed(sums.data(), values);
      EXPECT_EQ(beyond, 0);
      return Outcome{{values}, {sums.begin(), sums.end()}};
    };
  };
  compare(sum({0, 1, 2}), 0, "fixed point");
  ReferenceBackend reference;
  expect_equal_bits(sum({0, 1, 2})(reference), sum({2, 0, 1})(reference), "another order");
  const Outcome one = sum({0})(reference);
  for (int64_t i = 0; i < shape.elements(); ++i) ASSERT_NEAR(one.tensors[0][i], parts[0][i], 0x1p-41) << i;
}

TEST(CpuPasses, FixedPointSaysWhatDoesNotFit) {
  for (const float bad : {fixed_limit, -fixed_limit, NAN, INFINITY}) {
    for (Backend* const backend : {make_reference_backend().release(), make_cpu_backend({best_isa(), 2}).release()}) {
      const std::unique_ptr<Backend> owner(backend);
      const OwnedTensor values = random_real({1, 1, 1, 40000}, 1);
      std::vector<int64_t> sums(40000);
      int32_t beyond = 0;
      backend->add_fixed(values, sums.data(), false, &beyond);
      EXPECT_EQ(beyond, 0);
      values.f32()[30001] = bad;
      backend->add_fixed(values, sums.data(), true, &beyond);
      EXPECT_EQ(beyond, 1) << bad;
    }
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
    backend.softmax_loss({logits, labels.data(), nullptr, 0.1f, 0.01f, gradient, &report});
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
      backend.concat_forward({parts, y});
      backend.concat_backward({dy, into});
      keep(outcome, y);
      for (const OwnedTensor& tensor : {da, db}) outcome.tensors.push_back(tensor);
      return outcome;
    };
    compare(pass, 0, say("concatenation of ", octet::name_of(type)));
  }
}

void compare_pool(const PoolProblem& problem, DType type, uint32_t seed) {
  const bool quantized = !is_real(type);
  const Shape pixel{problem.x.n, 1, 1, problem.x.c};
  const OwnedQTensor x = type == DType::u8   ? random_unsigned_codes(problem.x, seed)
                         : type == DType::s8 ? random_codes(problem.x, seed, 3)
                                             : random_real_operand(problem.x, seed);
  const OwnedTensor dy = random_real(problem.y, 4, 1, quantized ? DType::bf16 : DType::f32);
  const OwnedTensor dy_global = random_real(pixel, 5, 1, quantized ? DType::bf16 : DType::f32);
  const auto pass = [&](Backend& backend) {
    Outcome outcome;
    const OwnedQTensor y(OwnedTensor(problem.y, type));
    const OwnedTensor dx = random_real(problem.x, 6, 1, quantized ? DType::f32 : DType::bf16);
    const OwnedTensor mean(pixel), dx_global = random_real(problem.x, 7);
    OwnedTensor choices;
    if (problem.kind == PoolKind::max) choices = OwnedTensor(problem.y, DType::u8);
    if (choices.view()) backend.pool_forward({problem, x, y});  // without them the same, see below
    const Tensor alone = y.values();
    std::vector<std::byte> once(alone.as<std::byte>(), alone.as<std::byte>() + alone.bytes());
    backend.pool_forward({problem, x, y, choices});
    if (choices.view()) {
      EXPECT_EQ(memcmp(once.data(), alone.data, alone.bytes()), 0);
      outcome.tensors.push_back(choices);
    }
    backend.pool_backward({problem, choices, dy, {dx, quantized}});
    backend.global_pool_forward({x, mean});
    backend.global_pool_backward({dy_global, {dx_global, quantized}});
    keep(outcome, y);
    for (const OwnedTensor& tensor : {dx, mean, dx_global}) outcome.tensors.push_back(tensor);
    return outcome;
  };
  compare(pass, 0, say("pool of ", problem.x.c, " channels, kind ", int(problem.kind), ", ", octet::name_of(type)));
}

TEST(CpuPasses, Pools) {
  struct Kind {
    PoolKind kind;
    bool rectify = false;
  };
  for (const auto& [kind, rectify] :
       {Kind{PoolKind::max}, Kind{PoolKind::max, true}, Kind{PoolKind::average}, Kind{PoolKind::repeat}}) {
    for (const int64_t channels : {1, 17, 64, 70}) {
      PoolProblem problem{{3, 9, 7, channels}, {}, 3, 2, 1, kind, channels == 17, rectify};
      problem.y = pooled_shape(problem);
      for (const DType type : {DType::s8, DType::u8, DType::f32}) compare_pool(problem, type, 3);
    }
  }
}

TEST(CpuPasses, RandomPools) {
  for (int index = 0; index < 100; ++index) {
    Draw draw(4, index);
    PoolProblem problem;
    problem.x = {draw.between(1, 3), draw.between(1, 20), draw.between(1, 20), draw.channels(130)};
    problem.kernel = static_cast<int>(draw.between(1, 4)), problem.stride = static_cast<int>(draw.between(1, 3));
    problem.pad = static_cast<int>(draw.between(0, problem.kernel / 2));
    problem.kind = draw.one_of({PoolKind::max, PoolKind::max, PoolKind::average, PoolKind::repeat});
    problem.count_padding = draw.coin(), problem.rectify = problem.kind == PoolKind::max && draw.coin();
    problem.y = pooled_shape(problem);
    if (problem.y.elements() == 0) continue;
    const NamedCase scope(draw.name(
        say(name_of(problem.x), ", kernel ", problem.kernel, " stride ", problem.stride, " pad ", problem.pad)));
    compare_pool(problem, draw.one_of({DType::s8, DType::u8, DType::f32}), draw.seed());
    if (HasFailure()) return;
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
    EXPECT_THROW(backend->quantize({real, encoding, {}, to, {}}), Error);
    EXPECT_THROW(backend->affine_forward({problem, x, norm.moments, norm.parameters(), {}, encoding, {}, to, {}}),
                 Error);
    EXPECT_THROW(backend->affine_backward(
                     {problem, x, norm.moments, norm.parameters(), {}, real, {}, {}, {}, encoding, {}, to, {}}),
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

// The pieces and the results are those of so many threads, whether they run or one does their work.
TEST(CpuPasses, LoopsAreLoggedAsTheyAreCut) {
  const OwnedTensor x({1, 1, 5, 20000});
  for (const auto mode : {LoopLog::Mode::times, LoopLog::Mode::plans}) {
    const auto backend = make_cpu_backend({Isa::scalar, 3});
    LoopLog& log = *backend->loops();
    const Encoding encoding = codes(Rounding::nearest, Range::absmax, nullptr);
    const auto quantize = [&] { backend->quantize({x, encoding, {}, room_for(encoding, x.view().shape), {}}); };
    quantize();
    EXPECT_TRUE(log.loops().empty());
    log.start(mode);
    log.name("first");
    quantize();
    log.name("second");
    quantize(), quantize();
    log.name("");
    log.start(LoopLog::Mode::off);
    quantize();
    ASSERT_TRUE(log.loops().empty());  // start() forgets
    log.start(mode);
    log.name("again");
    quantize(), quantize();
    log.name("");
    ASSERT_EQ(log.loops().size(), 1u);
    const auto& [key, loop] = *log.loops().begin();
    EXPECT_EQ(key, LoopLog::Key("again", 7));  // 100,000 elements in pieces of 16,384
    EXPECT_EQ(loop.calls, 4);                  // the largest, then the codes
    EXPECT_GT(loop.longest, 0);
    EXPECT_GE(loop.busy, loop.longest);
    EXPECT_GE(log.seconds().at("again"), loop.longest);
    const int ran = mode == LoopLog::Mode::plans ? 1 : 3;
    EXPECT_NEAR(loop.busy + loop.waiting, ran * loop.longest, 1e-9);
  }
}

TEST(CpuPasses, ThreadsOfAPlanAreOne) {
  LoopLog log;
  std::atomic<int> teams = 0;
  const auto count = [&](const cpu::Team& team) { teams += 10 + team.size(); };
  cpu::run_team({4, &log}, count);
  EXPECT_EQ(teams, 4 * 14);
  log.start(LoopLog::Mode::plans);
  teams = 0;
  cpu::run_team({4, &log}, count);
  EXPECT_EQ(teams, 11);
}

TEST(CpuPasses, RefusesWhatItCannotRun) {
  EXPECT_THROW(make_cpu_backend({Isa::scalar, 0}), Error);
  const auto backend = make_cpu_backend({Isa::scalar, 1});
  const float held = 0;
  const OwnedTensor x({1, 1, 1, 4});
  const Encoding encoding = codes(Rounding::nearest, Range::held, &held);
  EXPECT_THROW(backend->quantize({x, encoding, {}, room_for(encoding, x.view().shape), {}}), Error);
  const int32_t label = 4;
  LossReport report;
  EXPECT_THROW(backend->softmax_loss({x, &label, nullptr, 0, 1, {}, &report}), Error);
}

}  // namespace
}  // namespace octet::test::passes
