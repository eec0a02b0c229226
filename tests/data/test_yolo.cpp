// Folders of images and labels in YOLO's form.
#include <map>
#include <set>

#include "src/data/annotations/annotation_files.h"
#include "tests/data/annotated.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

class YoloFolder {
 public:
  YoloFolder() { data("names: [cat, dog]\n"); }
  Config config() const { return config_of("yolo", folder_.path()); }
  fs::path path() const { return folder_.path(); }
  void data(const std::string& yaml) const { write_text(path() / "data.yaml", yaml); }
  void write(const std::string& file, const std::string& text) const { write_text(path() / file, text); }
  // A picture of 100 x 50 pixels.
  void image(const std::string& file) const { write(file, "P6 100 50 255\n" + std::string(size_t{3} * 100 * 50, 'x')); }
  // With images of both splits; the labels of the training image are these.
  void fill(const std::string& labels) const {
    image("images/train/a.ppm"), image("images/val/b.ppm");
    write("labels/train/a.txt", labels);
  }
  Annotations train() const { return read_annotations(config(), Split::train); }
  std::string refusal(const std::string& labels) const {
    fill(labels);
    return message_of<UsageError>([&] { train(); });
  }

 private:
  TemporaryFolder folder_;
};

void expect_box(const Object& object, int32_t label, const BoxInFile& box) {
  EXPECT_EQ(object.label, label);
  EXPECT_NEAR(object.box.x, box.x, 1e-9);
  EXPECT_NEAR(object.box.y, box.y, 1e-9);
  EXPECT_NEAR(object.box.width, box.width, 1e-9);
  EXPECT_NEAR(object.box.height, box.height, 1e-9);
  EXPECT_NEAR(object.area, box.width * box.height, 1e-9);
}

TEST(Yolo, BoxesAreSharesOfThePicture) {
  const YoloFolder folder;
  folder.fill("1 0.5 0.5 0.2 0.4\r\n\n0\t0.1 0.9 0.2 0.2 \n");
  folder.image("images/train/sub/empty.ppm");
  folder.write("labels/train/sub/empty.txt", "");
  folder.image("images/train/sub/unlabelled.ppm");
  const Annotations all = folder.train();
  EXPECT_EQ(all.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(all.category_ids, (std::vector<int64_t>{0, 1}));
  ASSERT_EQ(all.images.size(), 3u);
  const AnnotatedImage& a = all.images[0];
  EXPECT_EQ(a.name, "images/train/a.ppm");
  EXPECT_EQ(std::pair(a.width, a.height), std::pair(100, 50));
  ASSERT_EQ(a.objects.size(), 2u);
  expect_box(a.objects[0], 1, {40, 15, 20, 20});
  expect_box(a.objects[1], 0, {0, 40, 20, 10});
  EXPECT_TRUE(all.images[1].objects.empty() && all.images[2].objects.empty());
  EXPECT_EQ(read_annotations(folder.config(), Split::test).images[0].name, "images/val/b.ppm");
}

TEST(Yolo, OutlinesBecomeBoxes) {
  const YoloFolder folder;
  folder.fill("0 0.1 0.2 0.5 0.1 0.3 0.6\n");
  expect_box(folder.train().images[0].objects[0], 0, {10, 5, 40, 25});
}

// As Roboflow writes it: folders of splits hold images and labels, and paths lead out of the folder.
TEST(Yolo, FoldersAreThoseOfTheDataFile) {
  for (const std::string train : {"../train/images", "train/images", "/content/set/train/images"}) {
    const YoloFolder folder;
    folder.data("train: " + train + "\nval: ../valid/images\nnc: 2\nnames:\n  0: cat\n  1: dog\n");
    folder.image("train/images/a.ppm"), folder.image("valid/images/b.ppm");
    folder.write("train/labels/a.txt", "1 0.5 0.5 1 1\n");
    EXPECT_EQ(folder.train().images[0].name, "train/images/a.ppm") << train;
    expect_box(folder.train().images[0].objects[0], 1, {0, 0, 100, 50});
    EXPECT_EQ(read_annotations(folder.config(), Split::test).images[0].name, "valid/images/b.ppm");
  }
}

TEST(Yolo, ListsAndSeveralFolders) {
  const YoloFolder folder;
  folder.data("train: [images/first, second.txt]\nval: images/first\nnames: [cat]\n");
  folder.image("images/first/z.ppm"), folder.image("images/second/b.ppm"), folder.image("images/second/a.ppm");
  folder.write("second.txt", "./images/second/b.ppm\n\nimages/second/a.ppm\n");
  folder.write("labels/first/z.txt", "0 0.5 0.5 0.5 0.5\n");
  std::vector<std::string> names;
  for (const AnnotatedImage& image : folder.train().images) names.push_back(image.name);
  EXPECT_EQ(names, (std::vector<std::string>{"images/first/z.ppm", "images/second/b.ppm", "images/second/a.ppm"}));
}

// One folder, of which data.holdout keeps some images for evaluation; copies stay together.
TEST(Yolo, HoldoutDividesOneFolder) {
  const YoloFolder folder;
  for (int i = 0; i < 20; ++i) {
    const std::string name = say(i), bytes = std::string(size_t{3} * 100 * 50, char('a' + i / 2));
    folder.write("images/" + name + ".ppm", "P6 100 50 255\n" + bytes);
    folder.write("labels/" + name + ".txt", "0 0.5 0.5 0.5 0.5\n");
  }
  Config config = folder.config();
  expect_says(message_of<UsageError>([&] { read_annotations(config, Split::test); }), {"data.holdout: 0.15"});
  EXPECT_FALSE(has_test_set(config.data));
  config.data.holdout = 0.3;
  const auto numbers = [&](Split split) {
    std::set<int> all;
    for (const AnnotatedImage& image : read_annotations(config, split).images)
      all.insert(std::stoi(fs::path(image.path).stem().string()));
    return all;
  };
  const std::set<int> train = numbers(Split::train), test = numbers(Split::test);
  EXPECT_EQ(train.size(), 14u);
  EXPECT_EQ(test.size(), 6u);
  for (const int i : test) EXPECT_TRUE(test.contains(i ^ 1) && !train.contains(i)) << i;
  folder.image("images/val/a.ppm");
  expect_says(message_of<UsageError>([&] { read_annotations(config, Split::test); }), {"has a set for evaluation"});
}

// Roboflow's names of the variants of an image: their bytes differ.
TEST(Yolo, HoldoutKeepsVariantsOfAnImageTogether) {
  const YoloFolder folder;
  for (int i = 0; i < 30; ++i) {
    const std::string name = say("photo", i / 3, "_jpg.rf.", char('a' + i % 3), "0f1e2d3c4b5a");
    folder.write("images/" + name + ".ppm", "P6 100 50 255\n" + std::string(size_t{3} * 100 * 50, char('a' + i)));
    folder.write("labels/" + name + ".txt", "0 0.5 0.5 0.5 0.5\n");
  }
  Config config = folder.config();
  config.data.holdout = 0.3;
  std::map<std::string, int> variants;
  for (const AnnotatedImage& image : read_annotations(config, Split::test).images)
    ++variants[image.name.substr(0, image.name.find(".rf."))];
  EXPECT_EQ(variants.size(), 3u);
  for (const auto& [photo, count] : variants) EXPECT_EQ(count, 3) << photo;
}

TEST(Yolo, BadLabelsAreNamed) {
  expect_says(YoloFolder().refusal("0 0.5 0.5 0.1\n"), {"labels/train/a.txt:1", "4 numbers"});
  expect_says(YoloFolder().refusal("\n0 0.5 x 0.1 0.1\n"), {"labels/train/a.txt:2", "`x` is no number"});
  expect_says(YoloFolder().refusal("0.5 0.5 0.5 0.1 0.1\n"), {"0.5 is no number of a class"});
  expect_says(YoloFolder().refusal("0 0.5 0.5 0.1 0.1 0.9\n"), {"6 numbers"});
  expect_says(YoloFolder().refusal("2 0.5 0.5 0.1 0.1\n"), {"class 2 has no name in", "data.bad_boxes: drop"});
  expect_says(YoloFolder().refusal("0 1.5 0.5 0.1 0.1\n"), {"bad box: outside of the image"});
  expect_says(YoloFolder().refusal("0 nan 0.5 0.1 0.1\n"), {"bad box: no finite numbers"});
  expect_says(YoloFolder().refusal(""), {"no object that trains"});
}

TEST(Yolo, BadBoxesMayBeDropped) {
  const YoloFolder folder;
  folder.fill("2 0.5 0.5 0.1 0.1\n0 1.5 0.5 0.1 0.1\n1 0.95 0.5 0.2 0.4\n");
  Config config = folder.config();
  config.data.bad_boxes = "drop";
  const Annotations all = read_annotations(config, Split::train);
  ASSERT_EQ(all.images[0].objects.size(), 1u);
  expect_box(all.images[0].objects[0], 1, {85, 15, 20, 20});  // beyond the edge: training clips it
}

TEST(Yolo, WhatIsMissingIsSaid) {
  const YoloFolder folder;
  const auto message = [&] { return message_of<UsageError>([&] { folder.train(); }); };
  expect_says(message(), {"no images for training", "images/train"});
  folder.data("names: [cat, cat]\n");
  expect_says(message(), {"two classes have the same name"});
  folder.data("names: {0: cat, 2: dog}\n");
  expect_says(message(), {"class 1 of 3 has none"});
  folder.data("nc: 2\n");
  expect_says(message(), {"it names no class"});
  folder.data("names: [cat]\ntrain: images/here\n");
  expect_says(message(), {"there is no `images/here` below"});
  fs::create_directories(folder.path() / "images/here");
  expect_says(message(), {"images/here: no image"});
  fs::remove(folder.path() / "data.yaml");
  expect_says(message(), {"no data.yaml", "names: [first, second]"});
}

}  // namespace
}  // namespace octet
