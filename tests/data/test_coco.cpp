#include <random>

#include "src/data/annotations/annotation_files.h"
#include "tests/data/annotated.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

TEST(Coco, ReadsSectionsInAnyOrder) {
  const CocoFolder folder;
  folder.write(Split::train, CocoFolder::with(", \"area\": 300", ""));
  const Annotations all = read_all_annotations(folder.config(), Split::train);
  EXPECT_EQ(all.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(all.category_ids, (std::vector<int64_t>{3, 7}));
  ASSERT_EQ(all.images.size(), 2u);
  const AnnotatedImage& b = all.images[0];
  EXPECT_EQ(b.id, 20);
  EXPECT_EQ(b.name, "b.jpg");
  EXPECT_EQ(b.path, (folder.path() / "train2017/b.jpg").string());
  EXPECT_EQ(b.width, 100);
  EXPECT_EQ(b.height, 80);
  ASSERT_EQ(b.objects.size(), 2u);
  EXPECT_EQ(b.objects[0].id, 5);
  EXPECT_EQ(b.objects[0].label, 1);
  EXPECT_EQ(b.objects[0].box.x, 1.5);
  EXPECT_EQ(b.objects[0].box.height, 40);
  EXPECT_EQ(b.objects[0].area, 900.5);
  EXPECT_FALSE(b.objects[0].crowd);
  EXPECT_EQ(b.objects[1].area, 400);  // of the box, since the file has none
  ASSERT_EQ(all.images[1].objects.size(), 1u);
  EXPECT_TRUE(all.images[1].objects[0].crowd);
}

TEST(Coco, CrowdsDoNotTrainAndAreEvaluated) {
  const CocoFolder folder;
  Config config = folder.config();
  EXPECT_TRUE(read_annotations(config, Split::train).images[1].objects.empty());
  EXPECT_EQ(read_annotations(config, Split::test).images[1].objects.size(), 1u);
  EXPECT_EQ(read_annotations(config, Split::test).images[0].path, (folder.path() / "val2017/b.jpg").string());
  config.data.empty_images = "skip";
  EXPECT_EQ(read_annotations(config, Split::train).images.size(), 1u);
  EXPECT_EQ(read_annotations(config, Split::test).images.size(), 2u);
}

TEST(Coco, ReadsOtherFilesAndFolders) {
  const CocoFolder folder;
  Config config = folder.config();
  write_text(folder.path() / "mine.json", CocoFolder::with("b.jpg", "deep/b.jpg"));
  config.data.annotations = "mine.json";
  config.data.images = "pictures";
  EXPECT_EQ(read_annotations(config, Split::train).images[0].path, (folder.path() / "pictures/deep/b.jpg").string());
  config.data.annotations = (folder.path() / "mine.json").string();
  EXPECT_EQ(read_annotations(config, Split::train).images.size(), 2u);
  config.data.sets = "trainval";
  expect_says(message_of<UsageError>([&] { read_annotations(config, Split::train); }), {"data.sets", "voc", "fix: "});
}

// As pandas and numpy write them; pycocotools reads them, since equal numbers are equal keys in Python.
TEST(Coco, ReadsWholeNumbersThatAreWrittenWithAPoint) {
  const CocoFolder folder;
  std::string json = CocoFolder::whole;
  for (const auto& [part, instead] :
       {std::pair("\"id\": 5", "\"id\": 5.0"),
        {"\"image_id\": 20, \"category_id\": 7", "\"image_id\": 2e1, \"category_id\": 7.0"},
        {"\"iscrowd\": 1", "\"iscrowd\": 1.0"},
        {"\"id\": 3,", "\"id\": 3.0,"},
        {"\"width\": 100", "\"width\": 100.0"},
        {"\"id\": 10", "\"id\": 10.0"}}) {
    const size_t at = json.find(part);
    ASSERT_NE(at, json.npos) << part;
    json.replace(at, std::string(part).size(), instead);
  }
  folder.write(Split::train, CocoFolder::whole);
  const Annotations plain = read_all_annotations(folder.config(), Split::train);
  folder.write(Split::train, json);
  const Annotations pointed = read_all_annotations(folder.config(), Split::train);
  EXPECT_EQ(pointed.category_ids, plain.category_ids);
  ASSERT_EQ(pointed.images.size(), plain.images.size());
  for (size_t i = 0; i < plain.images.size(); ++i) {
    EXPECT_EQ(pointed.images[i].id, plain.images[i].id);
    EXPECT_EQ(pointed.images[i].width, plain.images[i].width);
    ASSERT_EQ(pointed.images[i].objects.size(), plain.images[i].objects.size());
    for (size_t k = 0; k < plain.images[i].objects.size(); ++k) {
      EXPECT_EQ(pointed.images[i].objects[k].id, plain.images[i].objects[k].id);
      EXPECT_EQ(pointed.images[i].objects[k].label, plain.images[i].objects[k].label);
      EXPECT_EQ(pointed.images[i].objects[k].crowd, plain.images[i].objects[k].crowd);
    }
  }
  // Such a number would stand for two.
  expect_says(folder.refusal(CocoFolder::with("\"id\": 20", "\"id\": 9007199254740994.0")), {"expected an integer"});
}

std::string replaced(std::string text, std::initializer_list<std::pair<const char*, const char*>> parts) {
  for (const auto& [part, instead] : parts) {
    EXPECT_NE(text.find(part), text.npos) << part;
    for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += std::string(instead).size())
      text.replace(at, std::string(part).size(), instead);
  }
  return text;
}

// As VGG's annotator writes them. Stored detections then have such ids too, which pycocotools needs.
TEST(Coco, ReadsNumbersThatAreTexts) {
  const CocoFolder folder;
  const std::string json = replaced(CocoFolder::whole, {{"\"id\": 20", "\"id\": \"20\""},
                                                        {"\"image_id\": 20", "\"image_id\": \"20\""},
                                                        {"\"id\": 7", "\"id\": \"7\""},
                                                        {"\"category_id\": 7", "\"category_id\": \"7\""},
                                                        {"100", "\"100\""},
                                                        {"[1.5, 2,", "[\"1.5\", \" 2 \","},
                                                        {"900.5", "\"900.5\""}});
  folder.write(Split::train, "\xEF\xBB\xBF" + json);
  const Annotations all = folder.train();
  EXPECT_EQ(all.category_ids, (std::vector<int64_t>{3, 7}));
  const AnnotatedImage& b = all.images[0];
  EXPECT_EQ(b.id, 20);
  EXPECT_EQ(b.width, 100);
  ASSERT_EQ(b.objects.size(), 2u);
  EXPECT_EQ(b.objects[0].label, 1);
  EXPECT_EQ(b.objects[0].box.x, 1.5);
  EXPECT_EQ(b.objects[0].box.y, 2);
  EXPECT_EQ(b.objects[0].area, 900.5);
  EXPECT_TRUE(all.text_image_ids && all.text_category_ids);
  folder.write(Split::train, CocoFolder::whole);
  EXPECT_FALSE(folder.train().text_image_ids || folder.train().text_category_ids);
}

TEST(Coco, NamesOfCategoriesMayBeNumbers) {
  const CocoFolder folder;
  folder.write(Split::train, replaced(CocoFolder::whole, {{"\"dog\"", "3"}, {"\"cat\"", "1.50"}}));
  EXPECT_EQ(folder.train().classes, (std::vector<std::string>{"1.50", "3"}));
}

// pycocotools never reads the sizes of images.
TEST(Coco, ASizeThatIsNoneIsNotKnown) {
  const CocoFolder folder;
  const struct {
    const char* width;
    int32_t expected;
    bool warns;
  } cases[] = {{"100", 100, false}, {"\"100\"", 100, false}, {"100.0", 100, false},  {"0", 0, false},
               {"null", 0, false},  {"100.5", 0, true},      {"-1", 0, true},        {"NaN", 0, true},
               {"1e300", 0, true},  {"\"100.5\"", 0, true},  {"2147483648", 0, true}};
  for (const auto& [width, expected, warns] : cases) {
    folder.write(Split::train, replaced(CocoFolder::whole, {{"100", width}}));
    const Annotations all = folder.train();
    const std::string said = joined(all.doubts, "\n");
    EXPECT_EQ(all.images[0].width, expected) << width;
    EXPECT_EQ(all.images[0].height, expected == 0 ? 0 : 80) << width;
    EXPECT_EQ(said.find("1 images have an annotated size that is no size, such as ") != said.npos, warns) << said;
  }
}

// As in pycocotools.
TEST(Coco, EveryNumberButZeroIsACrowd) {
  const CocoFolder folder;
  for (const auto& [flag, crowd] : {std::pair("2", true), {"true", true}, {"-0.0", false}, {"false", false}}) {
    folder.write(Split::train, CocoFolder::with("\"iscrowd\": 1", say("\"iscrowd\": ", flag)));
    EXPECT_EQ(read_all_annotations(folder.config(), Split::train).images[1].objects[0].crowd, crowd) << flag;
  }
}

// Python's json and pandas write it. Of fields that are not read it does not matter, and in texts it is a word.
TEST(Coco, ReadsNanAsPythonWritesIt) {
  const CocoFolder folder;
  for (const char* number : {"NaN", "Infinity", "-Infinity"}) {
    expect_says(folder.refusal(CocoFolder::with("1.5", number)),
                {"train2017/b.jpg: object 5 (dog)", "no finite numbers", "data.bad_boxes: drop"});
    Config config = folder.config();
    config.data.bad_boxes = "drop";
    EXPECT_EQ(read_annotations(config, Split::train).images[0].objects.size(), 1u);
  }
  folder.write(Split::train, replaced(CocoFolder::whole, {{"\"license\": 1", "\"license\": NaN, \"x\": [-Infinity]"},
                                                          {"animal", "NaN \\\" Infinity"},
                                                          {"\"cat\"", "\"NaN\\\\\""}}));
  EXPECT_EQ(folder.train().classes, (std::vector<std::string>{"NaN\\", "dog"}));
  EXPECT_EQ(folder.train().images[0].objects.size(), 2u);
}

// The word lies over the border of what is read at once.
TEST(Coco, ReadsNanAnywhereInALongFile) {
  const CocoFolder folder;
  for (size_t blanks = 65420; blanks < 65450; ++blanks) {
    folder.write(Split::train, std::string(blanks, ' ') + CocoFolder::with("1.5", "-Infinity"));
    const Annotations all = read_all_annotations(folder.config(), Split::train);
    EXPECT_EQ(all.images[0].objects[0].box.x, -std::numeric_limits<double>::infinity());
    EXPECT_EQ(all.images[0].objects[0].box.y, 2);
  }
}

// Crowds and VOC's difficult objects count neither as found nor as missed, so no figure would be defined.
TEST(Coco, RefusesATestSetWithoutObjects) {
  const CocoFolder folder;
  const std::string empty = R"({"annotations": [], "categories": [{"id": 3, "name": "cat"}],
    "images": [{"id": 10, "file_name": "a.jpg"}]})";
  const std::string crowd = replaced(empty, {{"[]", R"([{"id": 6, "image_id": 10, "category_id": 3, "bbox":
    [0, 0, 10, 10], "iscrowd": 1}])"}});
  for (const std::string& json : {empty, crowd}) {
    folder.write(Split::test, json);
    expect_says(message_of<UsageError>(
                    [&] { require_objects_to_find(read_annotations(folder.config(), Split::test), "root"); }),
                {"the test set has no object to find", "fix: "});
  }
}

TEST(Coco, RefusesFilesThatAreMissingOrNoAnnotations) {
  const CocoFolder folder;
  const struct {
    std::string json;
    std::initializer_list<const char*> says;
  } cases[] = {
      {"", {"instances_train2017.json", "0 bytes"}},
      {std::string(CocoFolder::whole).substr(0, 300), {"byte 30", "no JSON"}},
      {CocoFolder::with("1.5", "None"), {"byte ", "no JSON"}},
      {CocoFolder::with("1.5", "NaN, Inf"), {"byte 118: no JSON"}},
      {CocoFolder::with("\"id\": 20", "\"id\": NaN"), {"images[0].id: expected an integer, not the text `NaN`"}},
      {CocoFolder::with("1.5", "1e999"), {"byte ", "no JSON"}},
      {"[1]", {"expected an object, not a list"}},
      {"7", {"expected an object, not a number"}},
      {"{}", {"no list `images`"}},
      {R"({"images": {}})", {"images: expected a list, not an object"}},
      {R"({"images": 3})", {"images: expected a list, not a number"}},
      {R"({"images": [[]]})", {"images[0]: expected an object, not a list"}},
      {R"({"images": [], "images": []})", {"`images` is there twice"}},
      {CocoFolder::with("\"id\": 20", "\"id\": 20.5"), {"images[0].id: expected an integer, not 20.5"}},
      {CocoFolder::with("\"id\": 20", "\"id\": \"b\""),
       {"images[0].id: expected an integer, not the text `b`", "fix: write `id` as an integer"}},
      {CocoFolder::with("\"id\": 20", "\"id\": \"020\""), {"images[0].id: expected an integer, not the text `020`"}},
      {CocoFolder::with("\"id\": 20", "\"id\": 18446744073709551615"), {"images[0].id: expected an integer"}},
      {CocoFolder::with("\"b.jpg\"", "{}"), {"images[0].file_name: expected a text, not an object"}},
      {CocoFolder::with("\"width\": 100", "\"width\": \"wide\""),
       {"images[0].width: expected a number, not the text `wide`"}},
      {CocoFolder::with("[0, 0, 10, 10]", "[0, 0, 10]"), {"annotations[1].bbox: expected 4 numbers, not 3"}},
      {CocoFolder::with("[0, 0, 10, 10]", "[0, 0, 10, 10, 5]"), {"annotations[1].bbox: expected 4 numbers, not 5"}},
      {CocoFolder::with("[0, 0, 10, 10]", "[]"),
       {"annotations[1].bbox: expected 4 numbers, not 0", "or remove the annotation"}},
      {CocoFolder::with("[0, 0, 10, 10]", "[0, 0, \"ten\", 10]"),
       {"annotations[1].bbox: expected 4 numbers, not the text `ten`"}},
      {CocoFolder::with("[0, 0, 10, 10]", "[0, 0, null, 10]"), {"annotations[1].bbox: expected 4 numbers"}},
      {CocoFolder::with("[0, 0, 10, 10]", "[0, 0, [1], 10]"), {"annotations[1].bbox: expected 4 numbers"}},
      {CocoFolder::with("[0, 0, 10, 10]", "null"), {"annotations[1]: no `bbox`"}},
      {CocoFolder::with("\"iscrowd\": 1", "\"iscrowd\": 0.5"), {"annotations[1].iscrowd: expected 0 or 1, not 0.5"}},
      {CocoFolder::with("\"iscrowd\": 1", "\"iscrowd\": \"0\""),
       {"annotations[1].iscrowd: expected 0 or 1, not a text"}},
      {CocoFolder::with("\"category_id\": 3,", ""), {"annotations[1]: no `category_id`"}},
      {CocoFolder::with("\"name\": \"cat\"", "\"alias\": \"cat\""), {"categories[1]: no `name`"}},
      {CocoFolder::with("[1, {\"id\": 1}]", std::string(100'000, '[')), {"nested more than 64 levels"}},
  };
  for (const auto& [json, says] : cases) expect_says(folder.refusal(json), says);
  fs::remove(folder.path() / "annotations/instances_train2017.json");
  expect_says(message_of<UsageError>([&] { folder.train(); }), {"there is no such file", "fix: ", "data.annotations"});
}

TEST(Coco, RefusesIdsThatAreTwiceOrUnknown) {
  const CocoFolder folder;
  expect_says(folder.refusal(CocoFolder::with("\"id\": 7, \"image", "\"id\": 5, \"image")),
              {"annotations[0] and annotations[2] have the same id 5"});
  expect_says(folder.refusal(CocoFolder::with("\"id\": 10", "\"id\": 20")),
              {"images[0] and images[1] have the same id 20"});
  expect_says(folder.refusal(CocoFolder::with("a.jpg", "b.jpg")),
              {"images[0] and images[1] have the same file_name b.jpg"});
  expect_says(folder.refusal(CocoFolder::with("\"id\": 3, \"name\"", "\"id\": 7, \"name\"")),
              {"categories[0] and categories[1] have the same id 7"});
  expect_says(folder.refusal(CocoFolder::with("\"category_id\": 7", "\"category_id\": 9")),
              {"1 annotations are of categories that the file does not list: 9"});
  expect_says(folder.refusal(CocoFolder::with("\"image_id\": 10", "\"image_id\": 11")),
              {"1 annotations are on images that the file does not list: 11"});
}

TEST(Coco, RefusesImagesOutsideOfTheirFolder) {
  const CocoFolder folder;
  for (const char* name : {"../b.jpg", "x/../../b.jpg", "/etc/passwd", "..", "", R"(a\u0000.jpg)"})
    expect_says(folder.refusal(CocoFolder::with("b.jpg", name)),
                {"images[0].file_name", "does not stay in the folder"});
  write_text(folder.path() / "elsewhere/b.jpg", "x");
  fs::create_directories(folder.path() / "train2017");
  fs::create_symlink("../elsewhere", folder.path() / "train2017/out");
  fs::create_symlink("../elsewhere/b.jpg", folder.path() / "train2017/b.jpg");
  expect_says(folder.refusal(CocoFolder::with("b.jpg", "out/b.jpg")), {"is a link out of the folder"});
  expect_says(folder.refusal(CocoFolder::whole), {"is a link out of the folder"});
  // The folder itself may be a link, and links may stay inside.
  fs::remove_all(folder.path() / "train2017");
  fs::create_symlink("elsewhere", folder.path() / "train2017");
  fs::create_symlink("b.jpg", folder.path() / "elsewhere/a.jpg");
  EXPECT_EQ(folder.train().images.size(), 2u);
}

TEST(Coco, BadBoxesStopOrAreDropped) {
  const CocoFolder folder;
  const struct {
    const char *box, *says;
  } cases[] = {{"[1, 2, 0, 40]", "width or height is not positive"},
               {"[1, 2, 30, -4]", "width or height is not positive"},
               {"[100, 2, 30, 40]", "outside of the image"},
               {"[1, -40, 30, 40]", "outside of the image"},
               {"[1e308, 2, 1e308, 40]", "no finite numbers"}};
  for (const auto& [box, says] : cases) {
    const std::string json = CocoFolder::with("[1.5, 2, 30, 40]", box);
    expect_says(folder.refusal(json), {"train2017/b.jpg: object 5 (dog)", says, "data.bad_boxes: drop"});
    folder.write_both(json);
    Config config = folder.config();
    expect_says(message_of<UsageError>([&] { read_annotations(config, Split::test); }), {says});
    config.data.bad_boxes = "drop";
    EXPECT_EQ(read_annotations(config, Split::train).images[0].objects.size(), 1u);
    EXPECT_EQ(read_annotations(config, Split::test).images[0].objects.size(), says[0] == 'n' ? 1u : 2u);
  }
  // Over the edge, but with pixels of the image.
  folder.write_both(CocoFolder::with("[1.5, 2, 30, 40]", "[-5, 70, 30, 40]"));
  EXPECT_EQ(folder.train().images[0].objects[0].box.x, -5);
}

TEST(Coco, RefusesATrainingSetWithoutObjects) {
  const CocoFolder folder;
  const std::string only_crowd = R"({"annotations": [{"id": 6, "image_id": 10, "category_id": 3, "bbox": [0, 0, 10, 10],
    "iscrowd": 1}], "categories": [{"id": 3, "name": "cat"}], "images": [{"id": 10, "file_name": "a.jpg"}]})";
  expect_says(folder.refusal(only_crowd), {"no object that trains"});
  expect_says(folder.refusal(R"({"annotations": [], "categories": [], "images": []})"), {"`categories` is empty"});
}

TEST(Annotations, ClassesOfTheSplitsAndOfTheNetworkAgree) {
  const CocoFolder folder;
  Config config = folder.config();
  const Annotations train = read_annotations(config, Split::train);
  const Classes known{train.classes, train.category_ids};
  Annotations test = train;
  number_as(known, test);
  EXPECT_EQ(test.category_ids, train.category_ids);
  test.classes.emplace_back("fish");
  test.category_ids.push_back(9);
  expect_says(message_of<UsageError>([&] { number_as(known, test); }), {"not in the training set: fish", "fix: "});
  expect_says(message_of<UsageError>([&] { require_classes(config, train); }), {"is 10", "has 2", "classes to 2"});
  for (const int64_t classes : {0, 2}) {
    config.model.classes = classes;
    require_classes(config, train);
  }
}

// Random classes of the training set, with ids of their own, in any order: labels are those of the names, and ids those
// of the file.
TEST(Annotations, RandomSubsetsOfClassesAreNumberedByName) {
  std::mt19937 random(5);
  const auto json = [&](const std::vector<std::pair<int64_t, std::string>>& categories) {
    std::string list, objects;
    for (const auto& [id, name] : categories) {
      list += say(list.empty() ? "" : ", ", "{\"id\": ", id, ", \"name\": \"", name, "\"}");
      objects += say(objects.empty() ? "" : ", ", "{\"id\": ", id + 1000, ", \"image_id\": 1, \"category_id\": ", id,
                     ", \"area\": 9, \"bbox\": [1, 2, ", name.size(), ", 4]}");
    }
    return say("{\"images\": [{\"id\": 1, \"file_name\": \"a.jpg\", \"width\": 50, \"height\": 40}], \"categories\": [",
               list, "], \"annotations\": [", objects, "]}");
  };
  for (int round = 0; round < 50; ++round) {
    const CocoFolder folder;
    std::vector<std::pair<int64_t, std::string>> train, test;
    for (size_t i = 0; i < 2 + random() % 6; ++i)
      train.emplace_back(static_cast<int64_t>(random() % 10 + 10 * i), std::string(i + 1, 'a'));
    std::ranges::shuffle(train, random);
    for (const auto& [id, name] : train)
      if (random() % 2 == 0) test.emplace_back(static_cast<int64_t>(random() % 10 + 10 * test.size()), name);
    if (test.empty()) test.emplace_back(3, train[0].second);
    folder.write(Split::train, json(train));
    folder.write(Split::test, json(test));
    Config config = folder.config();
    config.data.batch = 1, config.data.canvas_heights = config.data.canvas_widths = {64};
    config.model.classes = static_cast<int64_t>(train.size());
    for (const bool training : {true, false}) {
      if (test.size() == train.size() && !training) continue;  // the test set alone is then numbered by its own ids
      const Datasets sets = open_datasets(config, training);
      const Annotations& judged = *sets.test->annotations();
      EXPECT_EQ(judged.classes, read_annotations(config, Split::train).classes);
      EXPECT_EQ(sets.test->absent_classes().size(), train.size() - test.size());
      ASSERT_EQ(judged.images[0].objects.size(), test.size());
      for (size_t i = 0; i < test.size(); ++i) {
        const Object& object = judged.images[0].objects[i];
        EXPECT_EQ(judged.classes[size_t(object.label)], test[i].second);
        EXPECT_EQ(judged.classes[size_t(object.label)].size(), size_t(object.box.width));
        EXPECT_EQ(judged.category_ids[size_t(object.label)], test[i].first);
      }
    }
  }
}

// pycocotools judges categories by their ids, and so each is a class of its own.
TEST(Coco, CategoriesOfOneNameStayApart) {
  const CocoFolder folder;
  const std::string json = R"({"images": [{"id": 1, "file_name": "a.jpg", "width": 50, "height": 40}],
    "categories": [{"id": 0, "name": "red"}, {"id": 4, "name": "blue"}, {"id": 1, "name": "red"}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 10, 10], "area": 100},
                    {"id": 2, "image_id": 1, "category_id": 4, "bbox": [1, 2, 10, 10], "area": 100}]})";
  folder.write_both(json);
  Annotations all = folder.train();
  EXPECT_EQ(all.classes, (std::vector<std::string>{"red (id 0)", "red (id 1)", "blue"}));
  EXPECT_EQ(all.category_ids, (std::vector<int64_t>{0, 1, 4}));
  EXPECT_EQ(all.images[0].objects[0].label, 1);
  // Another file may have one of them alone.
  Annotations one{{"blue", "red"}, {2, 1}, all.images};
  for (Object& object : one.images[0].objects) object.label = object.label == 1 ? 1 : 0;
  number_as({all.classes, all.category_ids}, one);
  EXPECT_EQ(one.images[0].objects[0].label, 1);
  EXPECT_EQ(one.images[0].objects[1].label, 2);
  EXPECT_EQ(one.category_ids, (std::vector<int64_t>{no_category, 1, 2}));
  number_as({{"blue", "red"}, {4, 1}}, one = {{"blue", "red (id 1)"}, {4, 1}, {}});
  EXPECT_EQ(one.classes, (std::vector<std::string>{"blue", "red"}));
}

TEST(Annotations, NeedARootAndAFormat) {
  Config config = config_of("coco", "");
  expect_says(message_of<UsageError>([&] { read_annotations(config, Split::train); }), {"needs `data.root`", "fix: "});
  config = config_of("cifar10", "x");
  expect_says(message_of<UsageError>([&] { read_annotations(config, Split::train); }), {"coco, voc, yolo"});
  config = config_of("voc", "x");
  expect_says(message_of<UsageError>([&] { open_datasets(config); }), {"VOC2007/", "fix: "});
  config = config_of("shapes", "");
  config.data.annotations = "x.json";
  expect_says(message_of<UsageError>([&] { open_datasets(config); }), {"data.annotations", "only data.name: coco"});
}

}  // namespace
}  // namespace octet
