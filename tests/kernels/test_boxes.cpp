// Boxes, anchors, matching and sampling: numbers of torchvision, and cases whose answer is known.
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

#include "kernels/shared/anchors.h"
#include "kernels/shared/match.h"
#include "tests/kernels/detection.h"

namespace octet::test {
namespace {

const nlohmann::json& of_boxes() { return detection_golden()["boxes"]; }

std::vector<AnchorLevel> levels(std::vector<float> first, std::vector<float> second) {
  const std::vector<float> ratios = {0.5f, 1, 2};
  return {{4, 6, 8, std::move(first), ratios}, {2, 3, 16, std::move(second), ratios}};
}

TEST(Boxes, AnchorsAreThoseOfTorchvision) {
  EXPECT_EQ(corners(make_anchors(levels({32}, {64}))), golden_values(of_boxes()["pyramid_anchors"]));
  EXPECT_EQ(corners(make_anchors(levels({32, 40, 50}, {64, 80, 101}))), golden_values(of_boxes()["retina_anchors"]));
}

TEST(Boxes, AnchorsOfAnotherStyleAreNotRounded) {
  const std::vector<AnchorLevel> one = {{1, 2, 16, {30}, {4}}};
  EXPECT_EQ(one[0].count(), 2);
  EXPECT_EQ(corners(make_anchors(one, {false, 0.5f})),
            (std::vector<float>{0.5f, -22, 15.5f, 38, 16.5f, -22, 31.5f, 38}));
}

TEST(Boxes, OverlapsAndCodesAreThoseOfTorchvision) {
  const std::vector<Box> a = make_boxes(24, 1), b = make_boxes(24, 2);
  std::vector<float> overlaps, codes;
  for (const Box& one : a)
    for (const Box& other : b) overlaps.push_back(overlap_of(one, other));
  EXPECT_EQ(overlaps, golden_values(of_boxes()["overlaps"]));
  const BoxWeights weights{10, 10, 5, 5};
  for (size_t i = 0; i < a.size(); ++i) {
    const BoxCode code = encode_box(a[i], b[i], weights);
    codes.insert(codes.end(), {code.x, code.y, code.width, code.height});
    const Box back = decode_box(code, b[i], weights);
    expect_near(corners({&back, 1}), corners({&a[i], 1}), 256 * 0x1p-21, "decoded again");  // 8 roundings
  }
  expect_near(codes, golden_values(of_boxes()["codes"]), 1e-6, "codes");
  std::vector<Box> decoded;
  const std::vector<float> wild = values(96, 3, 40);  // far beyond the longest side
  for (size_t i = 0; i < b.size(); ++i)
    decoded.push_back(decode_box({wild[4 * i], wild[4 * i + 1], wild[4 * i + 2], wild[4 * i + 3]}, b[i], weights));
  expect_near(corners(decoded), golden_values(of_boxes()["decoded"]), 1e-6, "decoded");
}

TEST(Boxes, OverlapOfWhatHasNoAreaIsZero) {
  const Box point{3, 3, 3, 3}, box{0, 0, 10, 10}, broken{NAN, 0, 1, 1};
  EXPECT_EQ(overlap_of(point, point), 0);
  EXPECT_EQ(overlap_of(point, box), 0);
  EXPECT_EQ(overlap_of(broken, box), 0);
  EXPECT_EQ(overlap_of(box, {10, 0, 20, 10}), 0) << "an edge is shared";
  EXPECT_EQ(overlap_of(box, {0, 0, 10, 5}), 0.5f);
  const Box clipped = clip_to_image({-1, 2, NAN, 99}, 50, 40);
  EXPECT_EQ(corners({&clipped, 1}), (std::vector<float>{0, 2, 0, 40}));
}

TEST(Boxes, LevelOfAPyramid) {
  const auto level = [](float side) { return pyramid_level({0, 0, side, side}, 2, 5); };
  EXPECT_EQ(level(224), 4);
  EXPECT_EQ(level(223.9f), 3);
  EXPECT_EQ(level(448), 5);
  EXPECT_EQ(level(1000), 5);
  EXPECT_EQ(level(112), 3);
  EXPECT_EQ(level(111.9f), 2);
  EXPECT_EQ(level(0), 2);
  EXPECT_EQ(level(NAN), 2);
}

TEST(Boxes, SuppressionIsThatOfTorchvision) {
  const std::vector<Box> boxes = make_boxes(80, 4);
  const std::vector<float> scores = values(80, 5);
  const std::vector<int32_t> order = top_scores(scores, 80);
  const auto kept = of_boxes()["kept"].get<std::vector<int32_t>>();
  EXPECT_EQ(suppress_overlaps(boxes, order, 0.3f), kept);
  EXPECT_EQ(suppress_overlaps(boxes, order, 0.3f, 7), std::vector<int32_t>(kept.begin(), kept.begin() + 7));
}

TEST(Boxes, OfEqualScoresTheSmallerIndexIsFirst) {
  const std::vector<float> scores = {-0.0f, 2, NAN, 0, 2, -INFINITY, -3, INFINITY, 2};
  EXPECT_EQ(top_scores(scores, 9), (std::vector<int32_t>{7, 1, 4, 8, 0, 3, 6}));
  EXPECT_EQ(top_scores(scores, 2), (std::vector<int32_t>{7, 1}));
  EXPECT_EQ(top_scores(scores, 9, 0), (std::vector<int32_t>{7, 1, 4, 8}));
  EXPECT_TRUE(top_scores({}, 3).empty());
  const std::vector<Box> equal(5, Box{0, 0, 8, 8});
  const std::vector<float> same(5, 1.0f);
  EXPECT_EQ(suppress_overlaps(equal, top_scores(same, 5), 0.5f), std::vector<int32_t>{0});
  EXPECT_EQ(suppress_overlaps(equal, top_scores(same, 5), 1.0f).size(), 5u) << "no more than the threshold";
}

// Of 500 boxes with 20 different scores: each kept box overlaps none that is kept before it, each other one does, and
// the answer for any order of the boxes is the same set if ties keep their order.
TEST(Boxes, SuppressionKeepsWhatItsDefinitionSays) {
  const std::vector<Box> boxes = make_boxes(500, 31);
  std::vector<float> scores = values(500, 32);
  for (float& score : scores) score = std::floor(score * 20);
  const std::vector<int32_t> order = top_scores(scores, 500);
  for (size_t i = 1; i < order.size(); ++i) {
    const float before = scores[size_t(order[i - 1])], own = scores[size_t(order[i])];
    ASSERT_TRUE(before > own || (before == own && order[i - 1] < order[i]));
  }
  const std::vector<int32_t> kept = suppress_overlaps(boxes, order, 0.5f);
  size_t next = 0;
  for (const int32_t own : order) {
    const bool duplicate = std::any_of(kept.begin(), kept.begin() + int64_t(next), [&](int32_t other) {
      return overlap_of(boxes[size_t(own)], boxes[size_t(other)]) > 0.5f;
    });
    const bool is_kept = next < kept.size() && kept[next] == own;
    ASSERT_EQ(is_kept, !duplicate) << own;
    next += is_kept;
  }
  for (const int64_t most : {1, 100, 499})
    EXPECT_EQ(top_scores(scores, most), std::vector<int32_t>(order.begin(), order.begin() + most));
}

TEST(Boxes, MatchesAreThoseOfTorchvision) {
  const std::vector<Box> anchors = make_anchors(levels({32}, {64}));
  std::vector<Box> objects = make_boxes(5, 6);
  for (Box& box : objects) box = {box.x1 * 0.5f, box.y1 * 0.5f, box.x2 * 0.5f, box.y2 * 0.5f};
  const std::vector<std::pair<const char*, MatchProblem>> cases = {
      {"rpn", {0.7f, 0.3f, true}}, {"retina", {0.5f, 0.4f, true}}, {"roi", {0.5f, 0.5f, false}}};
  for (auto [name, problem] : cases) {
    std::vector<int32_t> matches(anchors.size());
    match(problem, anchors, objects, matches);
    EXPECT_EQ(matches, of_boxes()[std::string("matches_") + name].get<std::vector<int32_t>>()) << name;
  }
}

TEST(Boxes, EveryObjectIsFoundByWhatOverlapsItMost) {
  const std::vector<Box> candidates = {
      {0, 0, 10, 10}, {0, 0, 10, 10}, {20, 0, 30, 10}, {20, 0, 24, 10}, {90, 0, 99, 9}};
  const std::vector<Box> objects = {{0, 0, 10, 4}, {0, 0, 10, 5}, {20, 0, 29, 10}, {60, 60, 70, 70}};
  std::vector<int32_t> matches(5);
  match({0.7f, 0.3f, true}, candidates, objects, matches);
  // The first two tie for object 0 and for object 1, and overlap object 1 more. No candidate overlaps object 3.
  EXPECT_EQ(matches, (std::vector<int32_t>{1, 1, 2, ignored, background}));
  match({0.7f, 0.3f, false}, candidates, objects, matches);
  EXPECT_EQ(matches, (std::vector<int32_t>{ignored, ignored, 2, ignored, background}));
  match({0.7f, 0.3f, true, 25, 100}, candidates, objects, matches);
  EXPECT_EQ(matches, (std::vector<int32_t>{1, 1, ignored, 2, ignored})) << "the image ends at 25";
  match({0.7f, 0.3f, true}, candidates, {}, matches);
  EXPECT_EQ(matches, std::vector<int32_t>(5, background));
}

std::vector<int32_t> many_matches() {
  std::vector<int32_t> matches(3000);
  for (size_t i = 0; i < matches.size(); ++i)
    matches[i] = i % 7 == 3 ? ignored : i % 10 == 0 ? static_cast<int32_t>(i % 4) : background;
  return matches;
}

TEST(Boxes, SamplingKeepsTheWantedShare) {
  const std::vector<int32_t> all = many_matches();
  const int64_t positives = std::count_if(all.begin(), all.end(), [](int32_t m) { return m >= 0; });
  struct Case {
    SampleProblem problem;
    int64_t positive, negative;
  };
  for (const Case& one : {Case{{256, 0.5}, 128, 128}, Case{{512, 0.25}, 128, 384},
                          Case{{1000, 0.5}, positives, 1000 - positives}, Case{{1, 0.25}, 0, 1}}) {
    std::vector<int32_t> matches = all;
    const Sampled sampled = sample_matches(one.problem, {1, 2, 3, 4}, matches);
    EXPECT_EQ(sampled.positive, one.positive);
    EXPECT_EQ(sampled.negative, one.negative);
    EXPECT_EQ(std::count_if(matches.begin(), matches.end(), [](int32_t m) { return m >= 0; }), one.positive);
    EXPECT_EQ(std::count(matches.begin(), matches.end(), background), one.negative);
    for (size_t i = 0; i < all.size(); ++i) ASSERT_TRUE(matches[i] == all[i] || matches[i] == ignored);
  }
}

// A rank draws for its own images alone. Its draws are those of one rank that has them all, and other images, steps and
// layers draw others.
TEST(Boxes, SamplingDoesNotDependOnRanks) {
  const auto draw = [](const RngKey& key) {
    std::vector<int32_t> matches = many_matches();
    sample_matches({256, 0.5}, key, matches);
    return matches;
  };
  std::set<std::vector<int32_t>> together;
  for (uint32_t image = 0; image < 8; ++image) together.insert(draw({1, 2, 3, image}));
  EXPECT_EQ(together.size(), 8u);
  for (const int ranks : {1, 2, 4}) {
    std::set<std::vector<int32_t>> apart;
    for (int rank = ranks - 1; rank >= 0; --rank)
      for (int own = 0; own < 8 / ranks; ++own) apart.insert(draw({1, 2, 3, uint32_t(rank * (8 / ranks) + own)}));
    EXPECT_EQ(apart, together) << ranks << " ranks";
  }
  EXPECT_NE(draw({1, 2, 3, 0}), draw({1, 3, 3, 0}));
  EXPECT_NE(draw({1, 2, 3, 0}), draw({1, 2, 4, 0}));
  EXPECT_NE(draw({1, 2, 3, 0}), draw({2, 2, 3, 0}));
}

// Each of 100 candidates is drawn about as often as any other: 10 of them in 2000 draws is 200 times each, with a
// standard deviation of 13.4.
TEST(Boxes, SamplingIsUniform) {
  std::vector<int> drawn(100);
  for (uint32_t step = 0; step < 2000; ++step) {
    std::vector<int32_t> matches(100, background);
    sample_matches({10, 0.5}, {7, step, 0, 0}, matches);
    for (size_t i = 0; i < matches.size(); ++i) drawn[i] += matches[i] == background;
  }
  EXPECT_EQ(std::accumulate(drawn.begin(), drawn.end(), 0), 20000);
  EXPECT_GT(*std::min_element(drawn.begin(), drawn.end()), 200 - 5 * 14);
  EXPECT_LT(*std::max_element(drawn.begin(), drawn.end()), 200 + 5 * 14);
}

}  // namespace
}  // namespace octet::test
