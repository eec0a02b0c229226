// Recipes for images with boxes.
#include <gtest/gtest.h>

#include "src/report/check/box_advice.h"
#include "src/report/check/data_check.h"
#include "src/weights/weights_file.h"
#include "tests/data/annotated.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

// A picture of these pixels.
void write_plain(const fs::path& file, int width, int height) {
  write_text(file,
             say("P6 ", width, " ", height, " 255\n") + std::string(size_t(3) * size_t(width) * size_t(height), 'x'));
}
// Both splits: so many images with one small object of the first class and one large of the second.
void write_yolo(const fs::path& root, int images, int width, int height) {
  write_text(root / "data.yaml", "names: [bud, leaf]\n");
  for (const char* split : {"train", "val"})
    for (int i = 0; i < images; ++i) {
      const std::string name = say(split, "/", width, "_", i);
      write_plain(root / "images" / (name + ".ppm"), width, height);
      write_text(root / "labels" / (name + ".txt"), "0 0.5 0.5 0.125 0.125\n1 0.5 0.5 0.5 0.5\n");
    }
}

std::string value_of(const std::vector<Choice>& choices, const std::string& key) {
  const auto found = std::ranges::find(choices, key, &Choice::key);
  return found == choices.end() ? "" : found->value;
}
std::vector<Choice> choices_for(const fs::path& root, int64_t memory = int64_t{1} << 33) {
  const std::optional<BoxFacts> facts = look_at_boxes(root.string(), 2);
  EXPECT_TRUE(facts);
  return facts ? choose_detector(*facts, "", memory, 2) : std::vector<Choice>();
}

TEST(BoxAdvice, SizesAreThoseOfImagesAndObjects) {
  const TemporaryFolder folder;
  write_yolo(folder.path(), 20, 640, 480);
  const std::vector<Choice> choices = choices_for(folder.path());
  EXPECT_EQ(value_of(choices, "data.name"), "yolo");
  EXPECT_EQ(value_of(choices, "model.classes"), "2");
  EXPECT_EQ(value_of(choices, "data.short_side"), "288");
  EXPECT_EQ(value_of(choices, "data.canvas_heights"), "[288]");
  EXPECT_EQ(value_of(choices, "data.canvas_widths"), "[384]");
  // sqrt(80 x 60) and sqrt(320 x 240) of 480 pixels, at 288
  EXPECT_EQ(value_of(choices, "model.anchor_sizes"), "[42, 66, 105, 166]");
  EXPECT_EQ(value_of(choices, "data.bad_boxes"), "");
  EXPECT_EQ(value_of(choices, "data.batch"), "2");  // ten steps in an epoch
  const Config config = parse_config(recipe_text(choices, "new"), "new.yaml", {});
  EXPECT_EQ(config.model.anchor_sizes, (std::vector<int64_t>{42, 66, 105, 166}));
}

// Even steps from 20 to 140 pixels, 38 and 73, miss the objects of 50 and 56.
TEST(BoxAdvice, AnchorsAreThoseThatFindMore) {
  const TemporaryFolder folder;
  write_yolo(folder.path(), 20, 288, 288);
  for (int i = 0; i < 20; ++i) {
    const double side = (i < 6 ? 20 : i < 10 ? 50 : i < 14 ? 56 : 140) / 288.0, center = 160 / 288.0;
    const std::string box = say(" ", center, " ", center, " ", side, " ", side, "\n");
    for (const char* split : {"train", "val"})
      write_text(folder.path() / "labels" / split / say("288_", i, ".txt"), "0" + box + "1" + box);
  }
  const std::vector<Choice> choices = choices_for(folder.path());
  EXPECT_EQ(value_of(choices, "model.anchor_sizes"), "[20, 50, 56, 140]");
  const auto found = std::ranges::find(choices, std::string("model.anchor_sizes"), &Choice::key);
  expect_says(found->reason, {"some anchor overlaps 100 % of the objects by 0.7"});
}

TEST(BoxAdvice, WideAndHighImagesHaveCanvasesOfTheirOwn) {
  const TemporaryFolder folder;
  write_yolo(folder.path(), 3, 640, 480);
  write_yolo(folder.path(), 3, 480, 640);
  const std::vector<Choice> choices = choices_for(folder.path());
  EXPECT_EQ(value_of(choices, "data.canvas_heights"), "[288, 384]");
  EXPECT_EQ(value_of(choices, "data.canvas_widths"), "[384, 288]");
  const TemporaryFolder square;
  write_yolo(square.path(), 3, 100, 100);
  EXPECT_EQ(value_of(choices_for(square.path()), "data.canvas_heights"), "[96]");
}

TEST(BoxAdvice, SmallObjectsAskForMorePixels) {
  const TemporaryFolder folder;
  write_yolo(folder.path(), 3, 1000, 800);
  for (const char* split : {"train", "val"})
    for (int i = 0; i < 3; ++i)
      write_text(folder.path() / "labels" / split / say("1000_", i, ".txt"),
                 "0 0.5 0.5 0.02 0.025\n");  // 20 x 20 of 800
  EXPECT_EQ(value_of(choices_for(folder.path()), "data.short_side"), "480");
}

TEST(BoxAdvice, BadBoxesAreDropped) {
  const TemporaryFolder folder;
  write_yolo(folder.path(), 3, 640, 480);
  write_text(folder.path() / "labels/train/640_0.txt", "0 1.5 0.5 0.1 0.1\n1 0.5 0.5 0.5 0.5\n");
  EXPECT_EQ(value_of(choices_for(folder.path()), "data.bad_boxes"), "drop");
}

TEST(BoxAdvice, FormsAreRecognised) {
  const CocoFolder coco;
  for (const char* split : {"train2017", "val2017"}) write_text(coco.path() / split / "b.jpg", "an image");
  EXPECT_EQ(look_at_boxes(coco.path().string(), 1)->config.data.name, "coco");
  const TemporaryFolder exported;
  for (const char* split : {"train", "valid"})
    write_text(exported.path() / split / "b.jpg", "an image"),
        write_text(exported.path() / split / "_annotations.coco.json", CocoFolder::whole);
  const std::optional<BoxFacts> facts = look_at_boxes(exported.path().string(), 1);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->config.data.annotations_test, "valid/_annotations.coco.json");
  EXPECT_EQ(facts->train.images[0].path, (exported.path() / "train/b.jpg").string());
  const TemporaryFolder none;
  write_text(none.path() / "labels.json", "{\"of\": \"another program\"}");
  EXPECT_FALSE(look_at_boxes(none.path().string(), 1));
  const TemporaryFolder unnamed;
  write_text(unnamed.path() / "labels/train/a.txt", "0 0.5 0.5 0.1 0.1\n");
  expect_says(message_of<UsageError>([&] { look_at_boxes(unnamed.path().string(), 1); }),
              {"no data.yaml, which names the classes", "names: [first, second]"});
}

TEST(BoxAdvice, WhatIsMissingIsSaidInTheRecipe) {
  const TemporaryFolder folder;
  write_yolo(folder.path(), 20, 640, 480);
  write_text(folder.path() / "labels/train/640_3.txt", "0 0.5 0.5 0.125 0.125\n7 0.5 0.5 0.5 0.5\n");
  const std::vector<Choice> choices = choices_for(folder.path());
  EXPECT_EQ(value_of(choices, "data.bad_boxes"), "drop") << "class 7 has no name";
  fs::remove(folder.path() / "labels/val/640_1.txt");
  const Config config = parse_config(recipe_text(choices_for(folder.path()), "new"), "new.yaml", {});
  expect_says(joined(check_data(config).warnings, "\n"),
              {"1 objects of classes without a name are left out", "1 of 20 images have no file of labels"});
  EXPECT_EQ(value_of(choices, "data.bad_images"), "");
  const CocoFolder coco;
  expect_says(message_of<UsageError>([&] { look_at_boxes(coco.path().string(), 1); }),
              {"annotated images is there", "put the images where the annotations say"});
}

TEST(BoxAdvice, CocoFilesMayHaveAnyNames) {
  const TemporaryFolder split, whole;
  write_text(split.path() / "annotations/train.json", CocoFolder::whole);
  write_text(split.path() / "annotations/val.json", CocoFolder::whole);
  write_text(split.path() / "images/train/b.jpg", "an image");
  write_text(split.path() / "images/val/b.jpg", "an image");
  std::optional<BoxFacts> facts = look_at_boxes(split.path().string(), 1);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->config.data.annotations, "annotations/train.json");
  EXPECT_EQ(facts->config.data.annotations_test, "annotations/val.json");
  EXPECT_EQ(facts->train.images[0].path, (split.path() / "images/train/b.jpg").string());
  EXPECT_EQ(facts->config.data.images_test, "images/val");
  std::string images, annotations;
  for (int i = 1; i <= 20; ++i) {
    const char* const comma = i > 1 ? "," : "";
    write_text(whole.path() / say(i, ".jpg"), say("image ", i));
    images += say(comma, R"({"id": )", i, R"(, "file_name": ")", i, R"(.jpg", "width": 64, "height": 64})");
    annotations += say(comma, R"({"id": )", i, R"(, "image_id": )", i,
                       R"(, "category_id": 1, "bbox": [8, 8, 32, 32], "area": 1024, "iscrowd": 0})");
  }
  write_text(whole.path() / "instances_default.json",
             say(R"({"images": [)", images, R"(], "annotations": [)", annotations,
                 R"(], "categories": [{"id": 1, "name": "cell"}]})"));
  write_text(whole.path() / "labels.json", "{}");
  facts = look_at_boxes(whole.path().string(), 1);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->config.data.annotations, "instances_default.json");
  EXPECT_GT(facts->config.data.holdout, 0);
}

TEST(BoxAdvice, WeightsAreOfABackboneAndSayItsPixels) {
  const TemporaryFolder folder;
  write_yolo(folder.path(), 3, 640, 480);
  const BoxFacts facts = *look_at_boxes(folder.path().string(), 1);
  const auto choices = [&](const std::string& tensor) {
    OwnedTensors tensors;
    tensors.add(tensor, {1}, {1});
    const std::string path = (folder.path() / "weights.safetensors").string();
    write_safetensors(path, tensors, {});
    return choose_detector(facts, path, int64_t{1} << 33, 1);
  };
  const std::vector<Choice> found = choices("layer4.1.conv2.weight");
  EXPECT_EQ(value_of(found, "model.backbone"), "resnet18");
  // timm's names, where a block that MobileNetV2 lacks tells EfficientNet-Lite0 apart
  EXPECT_EQ(value_of(choices("blocks.5.3.conv_pwl.weight"), "model.backbone"), "efficientnet_lite0");
  EXPECT_NE(value_of(found, "model.initial_backbone"), "");
  EXPECT_EQ(value_of(found, "data.mean"), "[0.485, 0.456, 0.406]");
  expect_says(message_of<UsageError>([&] { choices("features.10.weight"); }),
              {"is of alexnet, which is no backbone of a detector", "resnet18"});
}

TEST(BoxAdvice, FewMemoryMakesSmallBatches) {
  const TemporaryFolder folder;
  write_yolo(folder.path(), 100, 64, 48);
  const std::vector<Choice> all = choices_for(folder.path()), few = choices_for(folder.path(), 1);
  EXPECT_EQ(value_of(all, "data.batch"), "8");
  EXPECT_EQ(value_of(few, "data.batch"), "1");
  EXPECT_NE(std::ranges::find(few, "data.batch", &Choice::key)->reason.find("does not fit"), std::string::npos);
}

}  // namespace
}  // namespace octet
