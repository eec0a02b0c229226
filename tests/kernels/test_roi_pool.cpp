// Pools of regions: torchvision's numbers, hand-made regions, codes, and equal bits on every instruction set.
#include <gtest/gtest.h>

#include "tests/kernels/detection.h"
#include "tests/kernels/passes.h"
#include "tests/kernels/random_problems.h"
#include "tests/kernels/regions.h"

namespace octet::test {
namespace {

using passes::compare;
using passes::Outcome;

// NCHW values, as the golden file numbers them, as NHWC. bins: channels are ordered (channel, bin) there, (bin,
// channel) here.
OwnedTensor nhwc(Shape shape, const std::vector<float>& nchw, int64_t bins = 1) {
  OwnedTensor result(shape);
  const int64_t area = shape.h * shape.w, of_bin = shape.c / bins;
  for (int64_t i = 0; i < result.elements(); ++i) {
    const int64_t channel = i % shape.c, pixel = i / shape.c % area, n = i / shape.c / area;
    const int64_t their_channel = channel % of_bin * bins + channel / of_bin;
    result.f32()[i] = nchw[size_t((n * shape.c + their_channel) * area + pixel)];
  }
  return result;
}

RoiProblem golden_problem(RoiKind kind, Shape map, Shape y) {
  RoiProblem problem;
  problem.kind = kind, problem.levels = {map}, problem.scales = {0.125f}, problem.y = y, problem.rois = 3;
  return problem;
}
OwnedTensor golden_table() {
  OwnedTensor table({6, 1, 1, 8});
  const std::vector<Box> boxes = make_boxes(6, 12);
  for (size_t i = 0; i < 6; ++i)
    table.view().as<RoiRow>()[i] = {boxes[i].x1, boxes[i].y1, boxes[i].x2, boxes[i].y2, 0, 1};
  return table;
}
void expect_golden(const RoiProblem& problem, const OwnedTensor& map, const std::string& name) {
  const OwnedTensor y(problem.y);
  const QTensor levels[] = {{map}};
  make_reference_backend()->roi_pool_forward({problem, levels, golden_table(), {y}});
  const OwnedTensor want = nhwc(problem.y, golden_values(detection_golden()["roi"][name]));
  for (int64_t i = 0; i < y.elements(); ++i) ASSERT_NEAR(y[i], want[i], 1e-5) << name << ", element " << i;
}

TEST(RoiPool, IsThatOfTorchvision) {
  const Shape map{2, 20, 26, 3};
  const OwnedTensor x = nhwc(map, values(map.elements(), 11));
  for (const int sampling : {2, 0})
    for (const bool aligned : {false, true}) {
      RoiProblem problem = golden_problem(RoiKind::align, map, {6, 3, 4, 3});
      problem.sampling = sampling, problem.aligned = aligned;
      expect_golden(problem, x, say("align_", sampling, "_", int(aligned)));
    }
  expect_golden(golden_problem(RoiKind::max, map, {6, 3, 4, 3}), x, "max");
  const Shape deep{2, 30, 36, 18};
  expect_golden(golden_problem(RoiKind::position_sensitive, deep, {6, 3, 3, 2}),
                nhwc(deep, values(deep.elements(), 13), 9), "position_sensitive");
}

// On a map whose values are its columns a bin's average is its middle.
TEST(RoiPool, AveragesOfARampAreMiddles) {
  const Shape map{1, 16, 16, 1};
  OwnedTensor x(map), table({1, 1, 1, 8}), y({1, 2, 2, 1});
  for (int64_t i = 0; i < 256; ++i) x.f32()[i] = static_cast<float>(i % 16);
  RoiProblem problem;
  problem.levels = {map}, problem.scales = {0.5f}, problem.y = {1, 2, 2, 1}, problem.rois = 1, problem.aligned = true;
  table.view().as<RoiRow>()[0] = {4, 4, 20, 20, 0, 1};  // columns 2 to 10 of the map: bins 2 to 6 and 6 to 10
  const QTensor levels[] = {{x}};
  const auto backend = make_reference_backend();
  backend->roi_pool_forward({problem, levels, table, {y}});
  EXPECT_EQ(y[0], 3.5f) << "pixel 2 has its center at 2.5";
  EXPECT_EQ(y[1], 7.5f);
  problem.kind = RoiKind::max;
  backend->roi_pool_forward({problem, levels, table, {y}});
  EXPECT_EQ(y[0], 6) << "RoIPool takes both ends: nine columns in two bins, the middle one in both";
  EXPECT_EQ(y[1], 10);
}

TEST(RoiPool, CodesTakeTheLargestScaleOfTheLevels) {
  RoiProblem problem;
  problem.levels = {{1, 4, 4, 1}, {1, 2, 2, 1}}, problem.scales = {0.25f, 0.125f};
  problem.y = {3, 1, 1, 1}, problem.rois = 3;
  const OwnedQTensor fine(OwnedTensor({1, 4, 4, 1}, DType::s8)), coarse(OwnedTensor({1, 2, 2, 1}, DType::s8));
  memset(fine.s8(), 101, 16), memset(coarse.s8(), -77, 4);
  *fine.scale() = 0.5f, *coarse.scale() = 1;
  OwnedTensor table({3, 1, 1, 8});
  const RoiRow rows[] = {{2, 2, 10, 10, 0, 1}, {2, 2, 10, 10, 1, 1}, {2, 2, 10, 10, 9, 0}};
  memcpy(table.f32(), rows, sizeof rows);
  const QTensor levels[] = {fine, coarse};
  for (const auto& backend : {make_reference_backend(), make_cpu_backend({best_isa(), 2})}) {
    const OwnedQTensor y(OwnedTensor({3, 1, 1, 1}, DType::s8));
    y.s8()[2] = 5;
    backend->roi_pool_forward({problem, levels, table, y});
    EXPECT_EQ(*y.scale(), 1);
    EXPECT_EQ(y.s8()[0], 50) << "50.5 to even";
    EXPECT_EQ(y.s8()[1], -77);
    EXPECT_EQ(y.s8()[2], 0) << "there is no region";
    table.view().as<RoiRow>()[2].valid = 1;
    EXPECT_THROW(backend->roi_pool_forward({problem, levels, table, y}), Error) << "there is no level 9";
    table.view().as<RoiRow>()[2].valid = 0;
  }
}

void compare_roi_pool(const RoiCase& one, DType type) {
  const RoiProblem& problem = one.problem;
  const auto map = [&](size_t level, uint32_t seed) {
    return type == DType::u8   ? random_unsigned_codes(problem.levels[level], seed)
           : type == DType::s8 ? random_codes(problem.levels[level], seed, 7)
                               : random_real_operand(problem.levels[level], seed);
  };
  const OwnedQTensor fine = map(0, 3), coarse = map(1, 17);
  const OwnedTensor dy = random_real(problem.y, 4, 1, type == DType::u8 ? DType::bf16 : DType::f32);
  const auto pass = [&](Backend& backend) {
    Outcome outcome;
    const OwnedQTensor y(OwnedTensor(problem.y, type));
    const OwnedTensor d_fine = random_real(problem.levels[0], 5, 1, DType::bf16),
                      d_coarse = random_real(problem.levels[1], 6);
    const QTensor levels[] = {fine, coarse};
    const Into both[] = {{d_fine, type == DType::s8}, {d_coarse, type == DType::u8}};
    backend.roi_pool_forward({problem, levels, one.table, y});
    backend.roi_pool_backward({problem, levels, one.table, dy, both});
    passes::keep(outcome, y);
    for (const OwnedTensor& tensor : {d_fine, d_coarse}) outcome.tensors.push_back(tensor);
    return outcome;
  };
  compare(pass, 0, say(one.name, ", ", name_of(type)));
}

TEST(RoiPool, HasTheSameBitsEverywhere) {
  for (const RoiCase& one : roi_cases())
    for (const DType type : {DType::s8, DType::u8, DType::f32}) compare_roi_pool(one, type);
}

TEST(RoiPool, OfRandomProblemsHasTheSameBitsEverywhere) {
  for (int index = 0; index < 40; ++index) {
    Draw draw(5, index);
    RoiProblem p;
    p.kind = draw.one_of({RoiKind::align, RoiKind::align, RoiKind::max, RoiKind::position_sensitive});
    p.rois = draw.between(1, 12), p.sampling = static_cast<int>(draw.between(0, 3)), p.aligned = draw.coin();
    const int64_t images = draw.between(1, 2);
    p.y = {images * p.rois, draw.between(1, 7), draw.between(1, 7), draw.channels(40)};
    const int64_t of_map = p.kind == RoiKind::position_sensitive ? p.y.c * p.y.h * p.y.w : p.y.c;
    p.levels = {{images, draw.between(1, 20), draw.between(1, 26), of_map},
                {images, draw.between(1, 10), draw.between(1, 13), of_map}};
    p.scales = {0.25f, 0.125f};
    const std::string name = draw.name(say("kind ", int(p.kind), ", sampling ", p.sampling, ", ", p.y.c, " channels"));
    const NamedCase scope(name);
    compare_roi_pool({name, p, region_table(p, draw.seed())}, draw.one_of({DType::s8, DType::u8, DType::f32}));
    if (HasFailure()) return;
  }
}

TEST(RoiPool, AGradientThatNobodyWantsIsLeftOut) {
  const RoiCase one = roi_cases()[0];
  const RoiProblem& problem = one.problem;
  const OwnedTensor dy = random_real(problem.y, 4), d_coarse(problem.levels[1]), both_coarse(problem.levels[1]),
                    both_fine(problem.levels[0]);
  for (const auto& backend : {make_reference_backend(), make_cpu_backend({best_isa(), 2})}) {
    const Into one_wanted[] = {{}, {d_coarse}}, both_wanted[] = {{both_fine}, {both_coarse}};
    backend->roi_pool_backward({problem, {}, one.table, dy, one_wanted});
    backend->roi_pool_backward({problem, {}, one.table, dy, both_wanted});
    EXPECT_EQ(memcmp(d_coarse.f32(), both_coarse.f32(), d_coarse.view().bytes()), 0);
  }
}

TEST(RoiPool, RefusesWhatDoesNotFit) {
  const RoiCase one = roi_cases()[0];
  const OwnedTensor fine(one.problem.levels[0]), coarse(one.problem.levels[1]), y(one.problem.y);
  const QTensor levels[] = {{fine}, {coarse}};
  for (const auto& backend : {make_reference_backend(), make_cpu_backend({best_isa(), 1})}) {
    RoiProblem wrong = one.problem;
    wrong.scales.pop_back();
    EXPECT_THROW(backend->roi_pool_forward({wrong, levels, one.table, {y}}), Error);
    wrong = one.problem;
    wrong.kind = RoiKind::position_sensitive;
    EXPECT_THROW(backend->roi_pool_forward({wrong, levels, one.table, {y}}), Error);
    EXPECT_THROW(backend->roi_pool_forward({one.problem, levels, OwnedTensor({3, 1, 1, 8}), {y}}), Error);
    wrong = one.problem;
    wrong.kind = RoiKind::max;
    const Into into[] = {{fine}, {coarse}};
    EXPECT_THROW(backend->roi_pool_backward({wrong, {}, one.table, y, into}), Error) << "maxima need the values";
  }
}

}  // namespace
}  // namespace octet::test
