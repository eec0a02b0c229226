// The answers of a classifier and their file.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/graph/answers.h"
#include "src/tasks/classification/class_answers.h"
#include "src/tasks/presentation.h"
#include "tests/train/temporary_directory.h"

namespace octet {
namespace {

TEST(ClassAnswers, AreTheMostProbableClasses) {
  const int32_t labels[] = {2, -1, 0};
  const float probabilities[] = {0.1f, 0.2f, 0.7f, 1, 0, 0, 0.4f, 0.5f, 0.1f};
  const int64_t samples[] = {30, -1, 32};
  const std::vector<Answer> answers = answers_of({.targets = {labels}, .samples = samples, .count = 3}, probabilities);
  ASSERT_EQ(answers.size(), 2u) << "an image that could not be read has no answer";
  EXPECT_EQ(answers[0].image, 30);
  EXPECT_EQ(answers[0].predicted, 2);
  EXPECT_EQ(answers[1].image, 32);
  EXPECT_EQ(answers[1].label, 0);
  EXPECT_EQ(answers[1].predicted, 1);
  EXPECT_EQ(answers[1].probability, 0.5f);
}

// The answers to a batch are those to its samples, in order; padding has none.
TEST(Prediction, DividesABatchBySamples) {
  const int64_t samples[] = {7, -1, 3};
  Answers all;
  all.logits = {1, 2, 0, 0, 5, 6};
  all.probabilities = {0.2f, 0.8f, 0.5f, 0.5f, 0.3f, 0.7f};
  all.detections = {{.image = 7, .label = 1, .score = 0.9, .box = {}},
                    {.image = 7, .label = 0, .score = 0.5, .box = {}},
                    {.image = 3, .label = 2, .score = 0.4, .box = {}}};
  const std::vector<Prediction> found = divide(all, {.samples = samples, .count = 3});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].sample, 7);
  EXPECT_EQ(found[0].answers.logits, (std::vector<float>{1, 2}));
  ASSERT_EQ(found[0].answers.detections.size(), 2u);
  EXPECT_EQ(found[0].answers.detections[1].label, 0);
  EXPECT_EQ(found[1].sample, 3);
  EXPECT_EQ(found[1].answers.probabilities, (std::vector<float>{0.3f, 0.7f}));
  ASSERT_EQ(found[1].answers.detections.size(), 1u);
  EXPECT_EQ(found[1].answers.detections[0].label, 2);
}

TEST(ClassAnswers, AreReadAsTheyWereWritten) {
  const TemporaryDirectory directory;
  EXPECT_FALSE(read_answers(directory.path()));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  write_answers(directory.path(), {.step = 7,
                                   .images = 4,
                                   .classes = {"cat", "dog"},
                                   .files = {"a", "b", "c", "dog/d.png"},
                                   .answers = {{0, 1, 0, 0.98768f}, {3, 0, 0, nan}}});
  EXPECT_EQ(
      read_file(directory / "evaluation.json"),
      "{\"step\":7,\"images\":4,\"classes\":[\"cat\",\"dog\"],\"label\":[1,-1,-1,0],"
      "\"predicted\":[0,-1,-1,0],\"probability\":[0.9877,0.0,0.0,null],\"file\":[\"a\",\"b\",\"c\",\"dog/d.png\"]}\n");
  const std::optional<ClassAnswers> read = read_answers(directory.path());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->step, 7);
  EXPECT_EQ(read->images, 4);
  EXPECT_EQ(read->files.at(3), "dog/d.png");
  ASSERT_EQ(read->answers.size(), 2u);
  EXPECT_EQ(read->answers[0].label, 1);
  EXPECT_EQ(read->answers[1].image, 3);
  EXPECT_TRUE(std::isnan(read->answers[1].probability));
}

TEST(ClassAnswers, DamageIsNamed) {
  const TemporaryDirectory directory;
  for (const char* text :
       {"", "[]", "{\"step\": 1}",
        "{\"step\":7,\"images\":1,\"classes\":[],\"label\":[1],\"predicted\":[],\"probability\":[1]}",
        "{\"step\":7,\"images\":1,\"classes\":[\"a\"],\"label\":[1],\"predicted\":[0],\"probability\":[1]}",
        "{\"step\":7,\"images\":1,\"classes\":[],\"label\":[[]],\"predicted\":[0],\"probability\":[1]}",
        "{\"step\":7,\"images\":0,\"classes\":[],\"label\":[0],\"predicted\":[0],\"probability\":[1]}",
        "{\"step\":7,\"images\":1,\"classes\":[],\"label\":[0],\"predicted\":[0],\"probability\":[1],\"file\":[\"a\","
        "\"b\"]}"}) {
    write_file(directory / "evaluation.json", text);
    EXPECT_PART(refusal([&] { read_answers(directory.path()); }), "evaluation.json: ");
  }
}

TEST(Csv, SpreadsheetsComputeNothing) {
  EXPECT_EQ(csv_field("a b.jpg"), "a b.jpg");
  EXPECT_EQ(csv_field("a,\"b\""), "\"a,\"\"b\"\"\"");
  for (const char* name : {"=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx"})
    EXPECT_EQ(csv_field(name), std::string("\"'") + name + "\"");
}

}  // namespace
}  // namespace octet
