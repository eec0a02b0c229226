#include "src/data/annotations/detections.h"
#include "tests/data/annotated.h"

namespace octet {
namespace {

class Results : public testing::Test {
 protected:
  std::vector<Detection> read(const std::string& json) const {
    write_text(file(), json);
    return read_detections(file(), truth_);
  }
  std::string refusal(const std::string& json) const {
    return message_of<UsageError>([&] { read(json); });
  }
  std::string file() const { return (folder_.path() / "results.json").string(); }
  TemporaryFolder folder_;
  Annotations truth_{.classes = {"cat", "dog"},
                     .category_ids = {3, 7},
                     .images = {{.id = 20, .name = "b", .path = "", .objects = {}},
                                {.id = 10, .name = "a", .path = "", .objects = {}}}};
};

TEST_F(Results, NameImagesAndCategoriesByIdOrByName) {
  const std::vector<Detection> found =
      read(R"([{"image_id": 10, "category_id": 7, "bbox": [1, 2.5, 3, 4], "score": 0.1234567890123},
               {"score": 1, "image_id": "b", "category_id": "cat", "bbox": [0, 0, 0, 5], "area": 3,
                "segmentation": {"size": [1, 2]}}])");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].image, 1);
  EXPECT_EQ(found[0].label, 1);
  EXPECT_EQ(found[0].box.y, 2.5);
  EXPECT_EQ(found[0].score, 0.1234567890123);
  EXPECT_EQ(found[1].image, 0);
  EXPECT_EQ(found[1].label, 0);
  EXPECT_TRUE(read("[]").empty());
  const std::vector<Detection> pointed =
      read(R"([{"image_id": 10.0, "category_id": 7.0, "bbox": [1, 2.5, 3, 4], "score": 1}])");
  EXPECT_EQ(pointed[0].image, 1);
  EXPECT_EQ(pointed[0].label, 1);
}

TEST_F(Results, NameOfSeveralCategoriesIsThatWithObjects) {
  truth_.classes = {"red (id 3)", "red (id 7)"};
  truth_.images[0].objects.push_back({.id = 1, .box = {}, .label = 1});
  const char* const by_name = R"([{"image_id": 10, "category_id": "red", "bbox": [1, 2, 3, 4], "score": 1}])";
  EXPECT_EQ(read(by_name)[0].label, 1);
  EXPECT_EQ(read(R"([{"image_id": 10, "category_id": 3, "bbox": [1, 2, 3, 4], "score": 1}])")[0].label, 0);
  truth_.images[0].objects.push_back({.id = 2, .box = {}, .label = 0});
  expect_says(refusal(by_name), {"[0].category_id: there are several of the name `red`", "give the id"});
}

TEST_F(Results, RefusesWhatIsUnknownOrDamaged) {
  const auto with = [](const char* image, const char* category, const char* box) {
    return say(R"([{"image_id": 10, "category_id": 7, "bbox": [1, 2, 3, 4], "score": 1}, {"image_id": )", image,
               R"(, "category_id": )", category, R"(, "bbox": )", box, R"(, "score": 0.5}])");
  };
  expect_says(refusal(with("11", "3", "[1, 2, 3, 4]")), {"results.json: [1].image_id: there is no image 11", "fix: "});
  expect_says(refusal(with("\"c\"", "3", "[1, 2, 3, 4]")), {"[1].image_id: there is no image `c`"});
  expect_says(refusal(with("10", "1", "[1, 2, 3, 4]")), {"[1].category_id: there is no category 1"});
  expect_says(refusal(with("10", "\"fish\"", "[1, 2, 3, 4]")), {"[1].category_id: there is no category `fish`"});
  expect_says(refusal(with("10", "3", "[1, 2, -3, 4]")), {"[1].bbox: a size of -3 x 4"});
  expect_says(refusal(with("10", "3", "[1, 2, 3]")), {"[1].bbox: expected 4 numbers, not 3"});
  expect_says(refusal(with("10", "3", "[1, 2, 3, \"four\"]")), {"[1].bbox: expected 4 numbers"});
  expect_says(refusal(with("10", "3", "[NaN, 2, 3, 4]")), {"[1].bbox: no finite numbers"});
  expect_says(refusal(with("10", "3", "[1, 2, 3, Infinity]")), {"[1].bbox: no finite numbers"});
  expect_says(refusal(with("\"10\"", "3", "[1, 2, 3, 4]")), {"[1].image_id: there is no image `10`"});
  expect_says(refusal(with("1.5", "3", "[1, 2, 3, 4]")), {"[1].image_id: expected an integer or a text"});
  expect_says(refusal(R"([{"image_id": 10, "category_id": 7, "bbox": [1, 2, 3, 4]}])"), {"[0]: no `score`"});
  expect_says(refusal(R"([{"image_id": 10, "category_id": 7, "bbox": [1, 2, 3, 4], "score": NaN}])"),
              {"[0].score: no finite number"});
  expect_says(refusal(R"({"annotations": []})"), {"expected a list, not an object"});
  expect_says(refusal("[3]"), {"[0]: expected an object, not a number"});
  expect_says(refusal(""), {"byte 1", "no JSON"});
  std::filesystem::remove(file());
  expect_says(message_of<UsageError>([&] { read_detections(file(), truth_); }), {"there is no such file"});
}

// A file that writes ids as texts. A number in a name is then no id.
TEST_F(Results, HaveTextsAsIdsWhereTheTruthHas) {
  truth_.text_image_ids = truth_.text_category_ids = true;
  truth_.classes = {"7", "3"};
  write_detections(file(), truth_, std::vector<Detection>{{.image = 1, .label = 1, .score = 1, .box = {1, 2, 3, 4}}});
  std::ifstream stream(file());
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  expect_says(text, {R"("image_id": "10", "category_id": "7",)"});
  const std::vector<Detection> found = read_detections(file(), truth_);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].image, 1);
  EXPECT_EQ(found[0].label, 1);
  EXPECT_EQ(read(R"([{"image_id": "b", "category_id": 3, "bbox": [1, 2, 3, 4], "score": 1}])")[0].label, 0);
}

TEST_F(Results, AreWrittenAsTheyAreRead) {
  const std::vector<Detection> found = {
      {.image = 1, .label = 1, .score = 0.1234567, .box = {1, 2.5, 3.126, 4e-9}},
      {.image = 0, .label = 0, .score = 1, .box = {12345.678, 0, 1, 1}},
  };
  write_detections(file(), truth_, found);
  const std::vector<Detection> read = read_detections(file(), truth_);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].image, 1);
  EXPECT_EQ(read[0].label, 1);
  EXPECT_EQ(read[0].score, 0.1234567);  // no two scores become one
  EXPECT_EQ(read[0].box.width, 3.13);
  EXPECT_EQ(read[0].box.height, 0);
  EXPECT_EQ(read[1].image, 0);
  EXPECT_EQ(read[1].box.x, 12345.68);
  truth_.category_ids[0] = no_category;  // of a class that the test set lacks
  write_detections(file(), truth_, found);
  EXPECT_EQ(read_detections(file(), truth_).size(), 1u);
  write_detections(file(), truth_, {});
  EXPECT_TRUE(read_detections(file(), truth_).empty());
}

}  // namespace
}  // namespace octet
