#include <nlohmann/json.hpp>

#include "src/data/drawn/make_shapes.h"
#include "src/data/drawn/shapes_detection.h"
#include "src/data/images/decode.h"
#include "src/data/images/image_files.h"
#include "tests/data/support.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

Config recipe(int64_t samples) {
  Config config;
  config.data.name = "shapes_detection";
  config.data.samples = samples;
  config.data.batch = 8;
  return config;
}

TEST(ShapesDetection, AreTheSamePicturesAlways) {
  // A checksum of the pixels: drawing must not depend on the machine or the compiler.
  int64_t checksum = 0;
  for (int64_t i = 0; i < 50; ++i)
    for (const uint8_t value : draw_scene(DrawStream::train_picture, i, 128).pixels)
      checksum = (checksum * 31 + value) % 1000000007;
  EXPECT_EQ(checksum, 994808223);
  Config config = recipe(64);
  const Datasets one = open_datasets(config);
  config.data.workers = 5;
  config.seed = 7;
  config.data.samples = 80;
  const Datasets other = open_datasets(config);
  EXPECT_EQ(one.train->size(), 64);
  EXPECT_EQ(one.test->size(), 8);
  for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(pixels_of(*one.train, i), pixels_of(*other.train, i, false, 99, 3));
  EXPECT_NE(pixels_of(*one.train, 0), pixels_of(*one.test, 0));
  EXPECT_EQ(open_datasets(config).fingerprint(), other.fingerprint());
  EXPECT_NE(one.fingerprint(), other.fingerprint());
  expect_says(one.train->describe(), {"shapes_detection: 64 images with", "objects of 10 classes"});
}

TEST(ShapesDetection, HaveObjectsOfAllSizesInsideOfThePicture) {
  for (const int side : {64, 128, 320}) {
    std::vector<int> labels(10), counts(13);
    double smallest = 1e9, largest = 0;
    for (int64_t i = 0; i < 300; ++i) {
      const AnnotatedImage image = draw_scene(DrawStream::train_picture, i, side).image;
      EXPECT_EQ(image.width, side);
      ++counts.at(image.objects.size());
      for (const Object& object : image.objects) {
        const BoxInFile& box = object.box;
        EXPECT_FALSE(object.crowd || object.difficult);
        ++labels.at(object.label);
        EXPECT_GE(box.x, 0);
        EXPECT_GE(box.y, 0);
        EXPECT_LE(box.x + box.width, side);
        EXPECT_LE(box.y + box.height, side);
        EXPECT_GT(object.area, 0);
        EXPECT_LE(object.area, box.width * box.height);
        smallest = std::min(smallest, std::max(box.width, box.height));
        largest = std::max(largest, std::max(box.width, box.height));
      }
    }
    EXPECT_EQ(counts[0], 0);
    EXPECT_GT(counts[1], 10);
    EXPECT_EQ(counts[12] > 0, side >= 128);  // a smaller picture has no room for twelve
    for (const int count : labels) EXPECT_GT(count, 80);
    EXPECT_GE(smallest, 6);
    EXPECT_LE(smallest, 14);
    EXPECT_GE(largest, std::min(90.0, 0.7 * side));
    EXPECT_LE(largest, 1.15 * std::min(96.0, 0.75 * side));
  }
}

// Where nothing of the picture is drawn over a shape, the box's sides touch it: moving one inwards loses pixels of its
// color.
TEST(ShapesDetection, BoxesTouchTheirShapes) {
  int checked = 0;
  for (int64_t i = 0; checked < 20; ++i) {
    const Scene scene = draw_scene(DrawStream::test_picture, i, 128);
    if (scene.image.objects.size() != 1) continue;
    ++checked;
    const BoxInFile& box = scene.image.objects[0].box;
    const auto pixel = [&](double x, double y) { return &scene.pixels[(size_t(y) * 128 + size_t(x)) * 3]; };
    // The color of the shape is that of most pixels of the box that differ from the frame around it. A covered pixel
    // is at least half of that color, so it differs from its neighbour outside on some line of each side.
    const auto differs = [](const uint8_t* a, const uint8_t* b) {
      return std::abs(a[0] - b[0]) + std::abs(a[1] - b[1]) + std::abs(a[2] - b[2]) > 30;
    };
    int left = 0, right = 0, top = 0, bottom = 0;
    for (double y = box.y; y < box.y + box.height; ++y) {
      left += box.x == 0 || differs(pixel(box.x, y), pixel(std::max(0.0, box.x - 2), y));
      right += box.x + box.width == 128 ||
               differs(pixel(box.x + box.width - 1, y), pixel(std::min(127.0, box.x + box.width + 1), y));
    }
    for (double x = box.x; x < box.x + box.width; ++x) {
      top += box.y == 0 || differs(pixel(x, box.y), pixel(x, std::max(0.0, box.y - 2)));
      bottom += box.y + box.height == 128 ||
                differs(pixel(x, box.y + box.height - 1), pixel(x, std::min(127.0, box.y + box.height + 1)));
    }
    EXPECT_GT(left, 0) << i;
    EXPECT_GT(right, 0) << i;
    EXPECT_GT(top, 0) << i;
    EXPECT_GT(bottom, 0) << i;
  }
}

TEST(ShapesDetection, OpenAtOtherSizes) {
  Config config = recipe(16);
  config.data.image_size = 192;
  const Datasets sets = open_datasets(config);
  EXPECT_EQ(sets.train->canvases(), 1);
  EXPECT_EQ(sets.train->shape().height, 192);
  ASSERT_NE(sets.train->annotations(), nullptr);
  EXPECT_EQ(sets.train->annotations()->classes.size(), 10u);
  config.data.image_size = 100;
  expect_says(message_of<UsageError>([&] { open_datasets(config); }), {"data.image_size is 100", "multiple of 32"});
}

TEST(ShapesDetection, AreWrittenAsFilesOfCoco) {
  const TemporaryFolder folder;
  const fs::path directory = folder.path() / "made";
  int64_t calls = 0, last = 0;
  make_shapes(directory.string(), 16, 64, [&](int64_t written, int64_t all) {
    EXPECT_EQ(all, 18);
    last = written;
    ++calls;
    EXPECT_FALSE(fs::exists(directory));  // before all is there
  });
  EXPECT_EQ(calls, 18);
  EXPECT_EQ(last, 18);
  for (const auto& [split, stream, count] :
       {std::tuple{"train2017", DrawStream::train_picture, 16}, {"val2017", DrawStream::test_picture, 2}}) {
    std::ifstream file(directory / "annotations" / say("instances_", split, ".json"));
    const auto json = nlohmann::json::parse(file);
    ASSERT_EQ(json["images"].size(), size_t(count));
    ASSERT_EQ(json["categories"].size(), 10u);
    EXPECT_EQ(json["categories"][0]["name"], "disc");
    size_t next = 0;
    for (int64_t i = 0; i < count; ++i) {
      const Scene scene = draw_scene(stream, i, 64);
      const auto& image = json["images"][i];
      EXPECT_EQ(image["height"], 64);
      const auto bytes = read_image_file(directory / split / image["file_name"].get<std::string>(), 1 << 20);
      const Raster pixels = decode(bytes, read_header(bytes, 1 << 20), 1);
      EXPECT_TRUE(std::equal(scene.pixels.begin(), scene.pixels.end(), pixels.data));
      for (const Object& object : scene.image.objects) {
        const auto& written = json["annotations"].at(next++);
        EXPECT_EQ(written["id"], next);
        EXPECT_EQ(written["image_id"], image["id"]);
        EXPECT_EQ(written["category_id"], object.label + 1);
        EXPECT_EQ(written["bbox"],
                  (std::vector<double>{object.box.x, object.box.y, object.box.width, object.box.height}));
        EXPECT_EQ(written["area"], object.area);
        EXPECT_EQ(written["iscrowd"], 0);
      }
    }
    EXPECT_EQ(json["annotations"].size(), next);
  }
  const auto nothing = [](int64_t, int64_t) {};
  expect_says(message_of<UsageError>([&] { make_shapes(directory.string(), 16, 64, nothing); }),
              {"holds files already"});
  // A failure leaves nothing behind.
  EXPECT_THROW(make_shapes((folder.path() / "other").string(), 16, 64,
                           [](int64_t written, int64_t) { REQUIRE(written < 5, "-", "no space"); }),
               Error);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(OpenDatasets, RefusesCanvasesWithoutObjects) {
  Config config;
  config.data.short_side = 600;
  expect_says(message_of<UsageError>([&] { open_datasets(config); }),
              {"data.short_side is set", "'shapes' has no objects"});
}

}  // namespace
}  // namespace octet
