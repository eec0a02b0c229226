#include <gtest/gtest.h>

#include <cstdlib>

#include "src/data/annotations/annotations.h"
#include "src/tasks/detection/figures.h"
#include "tests/tasks/detection_cases.h"

namespace octet {
namespace {

void expect_voc_figures(const Annotations& truth, int number, const std::vector<double>& golden) {
  const DetectionFigures result = voc_ap(truth, cases::drawn_detections(truth, number, number % 2 == 0));
  ASSERT_EQ(golden.size(), 2 + truth.classes.size());
  EXPECT_NEAR(result.figures[0].value, golden[0], cases::tolerance) << "case " << number;
  EXPECT_NEAR(result.figures[2].value, golden[1], cases::tolerance) << "case " << number;
  for (size_t label = 0; label < truth.classes.size(); ++label)
    EXPECT_NEAR(result.classes[label].figures[0].value, golden[2 + label], cases::tolerance) << "case " << number;
}

DetectionFigures::Class judged(const cases::Scene& scene) { return voc_ap(scene.truth, scene.found).classes[0]; }

TEST(VocAp, EqualsTheTranscriptionOnDrawnObjects) {
  const Annotations truth = cases::drawn_truth(1);
  const auto golden = cases::golden_rows("voc_drawn");
  ASSERT_EQ(golden.size(), 40u);
  for (int number = 0; number < 40; ++number) expect_voc_figures(truth, number, golden[number]);
}

TEST(VocAp, EqualsTheTranscriptionOnBloodCells) {
  const char* root = getenv("OCTET_BCCD");
  if (!root) GTEST_SKIP() << "set OCTET_BCCD to the folder of the blood cells to test with them";
  Config config;
  config.data.name = "voc";
  config.data.root = root;
  const Annotations truth = read_annotations(config, Split::test);
  const auto golden = cases::golden_rows("voc_bccd");
  ASSERT_EQ(golden.size(), 20u);
  for (int number = 0; number < 20; ++number) expect_voc_figures(truth, number, golden[number]);
}

// Of two objects the first is found by the best detection, the second by the last of four.
TEST(VocAp, CurvesHaveTheBestPrecisionAtARecallOrAHigherOne) {
  cases::Scene scene;
  scene.object({0, 0, 10, 10});
  scene.object({100, 0, 10, 10});
  scene.detect({0, 0, 10, 10}, 0.9);
  scene.detect({50, 0, 10, 10}, 0.8);
  scene.detect({70, 0, 10, 10}, 0.7);
  scene.detect({100, 0, 10, 10}, 0.6);
  std::vector<double> precision = judged(scene).precision;
  ASSERT_EQ(precision.size(), 101u);
  EXPECT_EQ(precision[0], 1);
  EXPECT_EQ(precision[50], 1);
  EXPECT_EQ(precision[51], 0.5);
  EXPECT_EQ(precision[100], 0.5);
  scene.found.pop_back();
  precision = judged(scene).precision;
  EXPECT_EQ(precision[50], 1);
  EXPECT_EQ(precision[51], 0);  // not reached
  scene.truth.images[0].objects.clear();
  EXPECT_TRUE(judged(scene).precision.empty());
}

TEST(VocAp, AnOverlapOfHalfIsNoHit) {
  cases::Scene scene;
  scene.object({0, 0, 10, 10});
  scene.detect({0, 0, 10, 5}, 0.5);
  EXPECT_EQ(judged(scene).figures[0].value, 0);
  scene.found[0].box.height = 5.001;
  EXPECT_DOUBLE_EQ(judged(scene).figures[0].value, 1);
}

TEST(VocAp, DifficultObjectsCountNeitherAsFoundNorAsMissed) {
  cases::Scene scene;
  scene.object({0, 0, 10, 10});
  scene.object({100, 0, 10, 10}).difficult = true;
  scene.detect({100, 0, 10, 10}, 0.9);
  scene.detect({100, 0, 10, 10}, 0.8);  // not wrong either: the object is never taken
  scene.detect({0, 0, 10, 10}, 0.5);
  EXPECT_EQ(judged(scene).objects, 1);
  EXPECT_DOUBLE_EQ(judged(scene).figures[0].value, 1);
  EXPECT_DOUBLE_EQ(judged(scene).figures[1].value, 1);
}

TEST(VocAp, TheSecondDetectionOfAnObjectIsWrong) {
  cases::Scene scene;
  scene.object({0, 0, 10, 10});
  scene.object({100, 0, 10, 10});
  scene.detect({0, 0, 10, 10}, 0.9);
  scene.detect({0, 0, 10, 10}, 0.8);
  scene.detect({100, 0, 10, 10}, 0.7);
  EXPECT_DOUBLE_EQ(judged(scene).figures[0].value, 0.5 + 0.5 * 2 / 3);
  EXPECT_DOUBLE_EQ(judged(scene).figures[1].value, (6 + 5 * 2.0 / 3) / 11);
}

// The nearest object decides, even where it is taken and another would be near enough.
TEST(VocAp, ADetectionDoesNotTurnToTheSecondNearestObject) {
  cases::Scene scene;
  scene.object({0, 0, 10, 10});
  scene.object({0, 0, 10, 11});
  scene.detect({0, 0, 10, 10}, 0.9);
  scene.detect({0, 0, 10, 10}, 0.8);
  EXPECT_DOUBLE_EQ(judged(scene).figures[0].value, 0.5);
  scene.truth.images[0].objects[0].difficult = true;  // the nearest, though it does not count
  EXPECT_EQ(judged(scene).figures[0].value, 0);
}

// 3 * 0.1 is 0.30000000000000004: three objects of ten do not reach the fourth point.
TEST(VocAp, ElevenPointsAreThoseOfDoubles) {
  cases::Scene scene;
  for (int i = 0; i < 10; ++i) scene.object({20.0 * i, 0, 10, 10});
  for (int i = 0; i < 3; ++i) scene.detect({20.0 * i, 0, 10, 10}, 0.5);
  EXPECT_DOUBLE_EQ(judged(scene).figures[1].value, 3.0 / 11);
}

TEST(VocAp, TiesFollowTheOrderOfImages) {
  cases::Scene scene;
  scene.truth.images.push_back({.id = 2, .name = "", .path = "", .objects = {}});
  scene.object({0, 0, 10, 10});
  scene.found.push_back({.image = 1, .label = 0, .score = 0.5, .box = {0, 0, 9, 9}});
  scene.detect({0, 0, 10, 10}, 0.5);
  EXPECT_DOUBLE_EQ(judged(scene).figures[0].value, 1);
}

TEST(VocAp, AClassWithoutObjectsIsInNoMean) {
  cases::Scene scene;
  scene.truth.classes.emplace_back("other");
  scene.found.push_back({.image = 0, .label = 1, .score = 0.9, .box = {0, 0, 10, 10}});
  EXPECT_EQ(voc_ap(scene.truth, scene.found).figures[0].value, -1);
  scene.object({0, 0, 10, 10}).difficult = true;
  EXPECT_EQ(voc_ap(scene.truth, scene.found).figures[0].value, -1);
  scene.object({50, 0, 10, 10});
  scene.detect({50, 0, 10, 10}, 0.5);
  const DetectionFigures figures = voc_ap(scene.truth, scene.found);
  EXPECT_DOUBLE_EQ(figures.figures[0].value, 1);
  EXPECT_EQ(figures.classes[1].objects, 0);
  EXPECT_EQ(figures.classes[1].figures[0].value, -1);
}

}  // namespace
}  // namespace octet
