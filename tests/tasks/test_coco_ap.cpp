#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "src/data/annotations/annotations.h"
#include "src/tasks/detection/figures.h"
#include "tests/tasks/detection_cases.h"

namespace octet {
namespace {

void expect_coco_figures(const Annotations& truth, int number, const std::vector<double>& golden) {
  const DetectionFigures result = coco_ap(truth, cases::drawn_detections(truth, number, false));
  ASSERT_EQ(result.figures.size(), golden.size());
  for (size_t i = 0; i < golden.size(); ++i)
    EXPECT_NEAR(result.figures[i].value, golden[i], cases::tolerance)
        << result.figures[i].name << " of case " << number;
}

double figure(const cases::Scene& scene, const std::string& name) {
  for (const Scalar& figure : coco_ap(scene.truth, scene.found).figures)
    if (figure.name == name) return figure.value;
  ADD_FAILURE() << name;
  return 0;
}

TEST(CocoAp, EqualsPycocotoolsOnDrawnObjects) {
  const Annotations truth = cases::drawn_truth(1);
  const auto golden = cases::golden_rows("coco_drawn");
  ASSERT_EQ(golden.size(), 40u);
  for (int number = 0; number < 40; ++number) expect_coco_figures(truth, number, golden[number]);
}

TEST(CocoAp, EqualsPycocotoolsOnTwoHundredResultsOfRealImages) {
  const char* root = getenv("OCTET_COCO_TINY");
  if (!root) GTEST_SKIP() << "set OCTET_COCO_TINY to the folder of COCO's 160 images to test with them";
  Config config;
  config.data.name = "coco";
  config.data.root = root;
  const auto golden = cases::golden_rows("coco_tiny");
  ASSERT_EQ(golden.size(), 200u);
  Annotations truth;
  for (int number = 0; number < 200; ++number) {
    if (number % 100 == 0) truth = read_all_annotations(config, number == 0 ? Split::train : Split::test);
    expect_coco_figures(truth, number, golden[number]);
  }
}

TEST(CocoAp, WithoutObjectsOrDetections) {
  cases::Scene scene;
  EXPECT_EQ(figure(scene, "AP"), -1);
  EXPECT_EQ(figure(scene, "AR100"), -1);
  scene.detect({0, 0, 10, 10}, 0.5);
  EXPECT_EQ(figure(scene, "AP"), -1);
  scene.object({100, 100, 50, 50});
  EXPECT_EQ(figure(scene, "AP"), 0);
  EXPECT_EQ(figure(scene, "APs"), -1);
  EXPECT_EQ(figure(scene, "ARm"), 0);
  scene.found.clear();
  EXPECT_EQ(figure(scene, "AP"), 0);
}

// As in pycocotools: it belongs to every size, since no comparison excludes it.
TEST(CocoAp, AnAreaThatIsNoNumberBelongsToEverySize) {
  cases::Scene scene;
  scene.object({0, 0, 50, 50});
  scene.truth.images[0].objects[0].area = std::numeric_limits<double>::quiet_NaN();
  scene.detect({0, 0, 50, 50}, 0.5);
  for (const char* name : {"AP", "APs", "APm", "APl"}) EXPECT_DOUBLE_EQ(figure(scene, name), 1) << name;
}

TEST(CocoAp, AClassWithoutObjectsIsInNoMean) {
  cases::Scene scene;
  scene.truth.classes.emplace_back("other");
  scene.truth.category_ids.push_back(2);
  scene.object({0, 0, 50, 50});
  scene.detect({0, 0, 50, 50}, 0.5);
  scene.found.push_back({.image = 0, .label = 1, .score = 0.9, .box = {0, 0, 50, 50}});
  EXPECT_DOUBLE_EQ(figure(scene, "AP"), 1);
  const DetectionFigures result = coco_ap(scene.truth, scene.found);
  EXPECT_EQ(result.classes[1].figures[0].value, -1);
  EXPECT_EQ(result.classes[1].objects, 0);
  EXPECT_DOUBLE_EQ(result.classes[0].figures[1].value, 1);
}

TEST(CocoAp, CurvesHaveTheMeanOfAp50) {
  const Annotations truth = cases::drawn_truth(1);
  for (int number = 0; number < 5; ++number)
    for (const DetectionFigures::Class& of : coco_ap(truth, cases::drawn_detections(truth, number, true)).classes) {
      if (of.objects == 0) {
        EXPECT_TRUE(of.precision.empty());
        continue;
      }
      ASSERT_EQ(of.precision.size(), 101u);
      EXPECT_DOUBLE_EQ(std::accumulate(of.precision.begin(), of.precision.end(), 0.0) / 101, of.figures[1].value);
      EXPECT_TRUE(std::ranges::is_sorted(of.precision, std::greater<>()));
    }
}

// Half of the object: exactly 0.5 is enough for the threshold 0.5, and for no other.
TEST(CocoAp, AnOverlapOfTheThresholdIsAMatch) {
  cases::Scene scene;
  scene.object({0, 0, 10, 10});
  scene.detect({0, 0, 10, 5}, 0.5);
  EXPECT_DOUBLE_EQ(figure(scene, "AP50"), 1);
  EXPECT_DOUBLE_EQ(figure(scene, "AP"), 0.1);
  EXPECT_DOUBLE_EQ(figure(scene, "AP75"), 0);
}

TEST(CocoAp, ACrowdTakesAnyNumberOfDetectionsAndCountsNone) {
  cases::Scene scene;
  scene.object({0, 0, 40, 40});
  scene.object({100, 0, 100, 100}).crowd = true;
  for (int i = 0; i < 5; ++i) scene.detect({100 + 10.0 * i, 10, 30, 30}, 0.9);  // inside, so overlap 1
  scene.detect({0, 0, 40, 40}, 0.1);
  EXPECT_DOUBLE_EQ(figure(scene, "AP"), 1);
  scene.truth.images[0].objects[1].crowd = false;
  EXPECT_LT(figure(scene, "AP"), 0.2);
}

TEST(CocoAp, AnObjectIsFoundOnce) {
  cases::Scene scene;
  scene.object({0, 0, 40, 40});
  scene.object({200, 0, 40, 40});
  scene.detect({0, 0, 40, 40}, 0.9);
  scene.detect({0, 0, 40, 40}, 0.8);
  scene.detect({200, 0, 40, 40}, 0.7);
  // precision 1 up to recall 0.5, then 2 / 3: 51 and 50 of 101 points
  EXPECT_NEAR(figure(scene, "AP"), (51 + 50 * 2.0 / 3) / 101, 1e-12);
}

TEST(CocoAp, SizesAreThoseOfMasksForObjectsAndOfBoxesForDetections) {
  cases::Scene scene;
  scene.object({0, 0, 40, 40}).area = 1024;  // small and medium: both ends belong to a range
  scene.detect({0, 0, 40, 40}, 0.5);
  EXPECT_DOUBLE_EQ(figure(scene, "APs"), 1);
  EXPECT_DOUBLE_EQ(figure(scene, "APm"), 1);
  EXPECT_EQ(figure(scene, "APl"), -1);
  scene.detect({300, 0, 10, 10}, 0.9);  // wrong among the small ones, ignored elsewhere
  EXPECT_DOUBLE_EQ(figure(scene, "APs"), 0.5);
  EXPECT_DOUBLE_EQ(figure(scene, "APm"), 1);
}

TEST(CocoAp, OnlyTheBestHundredOfAClassOnAnImageCount) {
  cases::Scene scene;
  scene.object({0, 0, 40, 40});
  for (int i = 0; i < 100; ++i) scene.detect({300, 0, 40, 40}, 0.9);
  scene.detect({0, 0, 40, 40}, 0.1);
  EXPECT_EQ(figure(scene, "AP"), 0);
  scene.found[99].score = 0;  // now behind it
  EXPECT_NEAR(figure(scene, "AP"), 0.01, 1e-12);
  EXPECT_EQ(figure(scene, "AR10"), 0);
  EXPECT_EQ(figure(scene, "AR100"), 1);
}

// Of equal scores the detection on the image with the smaller id comes first, whatever the order of the images.
TEST(CocoAp, TiesFollowTheIdsOfImages) {
  for (const int64_t other : {1, 3}) {
    cases::Scene scene;
    scene.truth.images[0].id = 2;
    scene.truth.images.push_back({.id = other, .name = "", .path = "", .objects = {}});
    scene.object({0, 0, 40, 40});
    scene.detect({0, 0, 40, 40}, 0.5);
    scene.found.push_back({.image = 1, .label = 0, .score = 0.5, .box = {0, 0, 9, 9}});
    EXPECT_NEAR(figure(scene, "AP"), other == 3 ? 1 : 0.5, 1e-12);
  }
}

TEST(CocoAp, AmongEqualOverlapsTheLastObjectIsTaken) {
  cases::Scene scene;
  scene.object({0, 0, 40, 40}).area = 100;  // small
  scene.object({0, 0, 40, 40}).area = 2000;
  scene.detect({0, 0, 40, 40}, 0.5);
  EXPECT_EQ(figure(scene, "AR100"), 0.5);
  EXPECT_EQ(figure(scene, "ARs"), 1);  // there the other one does not count, and is taken last
  EXPECT_EQ(figure(scene, "ARm"), 1);
}

void expect_at_score(const AtScore& found, double score, double precision, double recall, double f1) {
  EXPECT_DOUBLE_EQ(found.score, score);
  EXPECT_DOUBLE_EQ(found.precision, precision);
  EXPECT_DOUBLE_EQ(found.recall, recall);
  EXPECT_DOUBLE_EQ(found.f1, f1);
}

// Scores 0.9 right, 0.8 wrong, 0.7 right, 0.6 wrong and wrong, of three objects: F1 2/4, 2/5, 4/6, 4/7, 4/8.
TEST(AtScore, HasTheGreatestF1) {
  cases::Scene scene;
  for (const double x : {0.0, 100.0, 200.0}) scene.object({x, 0, 50, 50});
  scene.detect({0, 0, 50, 50}, 0.9);
  scene.detect({0, 300, 50, 50}, 0.8);
  scene.detect({100, 0, 50, 50}, 0.7);
  for (const double y : {400.0, 500.0}) scene.detect({0, y, 50, 50}, 0.6);
  for (const DetectionFigures& judged : {coco_ap(scene.truth, scene.found), voc_ap(scene.truth, scene.found)}) {
    expect_at_score(judged.classes[0].best, 0.7, 2.0 / 3, 2.0 / 3, 2.0 / 3);
    expect_at_score(judged.at_one_score, 0.7, 2.0 / 3, 2.0 / 3, 2.0 / 3);
  }
  for (Detection& found : scene.found) found.score = 0.5;  // no score parts them
  expect_at_score(coco_ap(scene.truth, scene.found).classes[0].best, 0.5, 2.0 / 5, 2.0 / 3, 0.5);
}

TEST(AtScore, LeavesOutWhatCountsNeitherAsFoundNorAsMissed) {
  cases::Scene scene;
  scene.object({0, 0, 50, 50});
  Object& other = scene.object({100, 0, 50, 50});
  other.crowd = other.difficult = true;
  scene.detect({100, 0, 50, 50}, 0.9);
  scene.detect({0, 0, 50, 50}, 0.8);
  for (const DetectionFigures& judged : {coco_ap(scene.truth, scene.found), voc_ap(scene.truth, scene.found)})
    expect_at_score(judged.classes[0].best, 0.8, 1, 1, 1);
}

TEST(AtScore, WithoutObjectsOrRightDetections) {
  cases::Scene scene;
  scene.detect({0, 0, 50, 50}, 0.9);
  for (const DetectionFigures& judged : {coco_ap(scene.truth, scene.found), voc_ap(scene.truth, scene.found)}) {
    expect_at_score(judged.classes[0].best, -1, -1, -1, -1);
    expect_at_score(judged.at_one_score, -1, -1, -1, -1);
  }
  scene.object({200, 0, 50, 50});
  for (const DetectionFigures& judged : {coco_ap(scene.truth, scene.found), voc_ap(scene.truth, scene.found)})
    expect_at_score(judged.classes[0].best, -1, 0, 0, 0);
}

// Two classes: at scores of their own both are right; at one score for both, a wrong one lies between.
TEST(AtScore, OfAllClassesIsThatOfTheirDetectionsTogether) {
  cases::Scene scene;
  scene.truth.classes.emplace_back("other");
  scene.truth.category_ids.push_back(2);
  scene.object({0, 0, 50, 50});
  scene.object({100, 0, 50, 50}).label = 1;
  scene.detect({0, 0, 50, 50}, 0.9);
  scene.detect({300, 0, 50, 50}, 0.5);
  scene.found.push_back({.image = 0, .label = 1, .score = 0.4, .box = {100, 0, 50, 50}});
  const DetectionFigures judged = coco_ap(scene.truth, scene.found);
  expect_at_score(judged.classes[0].best, 0.9, 1, 1, 1);
  expect_at_score(judged.classes[1].best, 0.4, 1, 1, 1);
  expect_at_score(judged.at_one_score, 0.4, 2.0 / 3, 1, 0.8);
}

}  // namespace
}  // namespace octet
