#include <cmath>
#include <map>

#include "src/data/sources/detection_set.h"
#include "tests/data/files.h"

namespace octet {
namespace {

constexpr Normalization bytes_as_they_are = {{0, 0, 0}, {1 / 255.0f, 1 / 255.0f, 1 / 255.0f}};

// One 40 x 60 PNG, whose left half is red and whose right half is blue, with objects of every kind.
class DetectionFiles : public testing::Test {
 protected:
  DetectionFiles() {
    data_.short_side = 80, data_.canvas_heights = {96}, data_.canvas_widths = {160};
    data_.flip = 0;
    annotations_.classes = {"cat", "dog"};
    annotations_.category_ids = {7, 9};
    add("a.png", encoded(picture(40, 60), ".png"));
    annotations_.images[0].objects = {{.box = {10, 5, 20, 30}, .area = 600, .label = 1},
                                      {.box = {0, 0, 60, 40}, .area = 2400, .crowd = true},
                                      {.box = {1, 1, 9, 9}, .area = 81, .difficult = true},
                                      {.box = {30, 20, 0.4, 20}, .area = 8},
                                      {.box = {50, 30, 30, 30}, .area = 900}};
  }
  void add(const std::string& name, const std::vector<uint8_t>& bytes) {
    write_file(folder_.path() / name, bytes);
    annotations_.images.push_back({.id = int64_t(annotations_.images.size()) + 1,
                                   .name = name,
                                   .path = (folder_.path() / name).string(),
                                   .width = 60,
                                   .height = 40,
                                   .objects = {}});
  }
  DetectionSet set() const {
    return {"test", annotations_, image_files(annotations_, 64'000'000), data_, bytes_as_they_are};
  }
  struct Sample {
    std::vector<float> pixels;
    Truth truth;
    bool present = false;
    const float* at(int64_t y, int64_t x) const { return &pixels[(y * 160 + x) * 3]; }
  };
  static Sample sample(const DetectionSet& set, int64_t index = 0, bool training = false, int64_t epoch = 0,
                       uint64_t seed = 1) {
    const ImageShape shape = set.canvas_shape(set.canvas(index));
    Sample sample{std::vector<float>(shape.height * shape.width * 3, -1), {}, false};
    sample.present = set.read_with_truth(index, training, seed, epoch, sample.pixels.data(), sample.truth);
    return sample;
  }
  static void expect_box(const Box& box, float x1, float y1, float x2, float y2) {
    EXPECT_FLOAT_EQ(box.x1, x1);
    EXPECT_FLOAT_EQ(box.y1, y1);
    EXPECT_FLOAT_EQ(box.x2, x2);
    EXPECT_FLOAT_EQ(box.y2, y2);
  }
  TemporaryFolder folder_;
  Config::Data data_;
  Annotations annotations_;
};

TEST_F(DetectionFiles, AreResizedToTheTopLeftOfTheCanvas) {
  const Sample read = sample(set());
  ASSERT_TRUE(read.present);
  for (int64_t y = 0; y < 96; ++y)
    for (int64_t x = 0; x < 160; ++x) {
      if (x == 59 || x == 60) continue;  // where the colors meet
      const bool content = y < 80 && x < 120;
      EXPECT_NEAR(read.at(y, x)[0], content && x < 60 ? 255 : 0, 1e-3) << y << ' ' << x;
      EXPECT_NEAR(read.at(y, x)[2], content && x >= 60 ? 255 : 0, 1e-3) << y << ' ' << x;
    }
  ASSERT_EQ(read.truth.images.size(), 1u);
  const Truth::Image& image = read.truth.images[0];
  EXPECT_EQ(image.index, 0);
  EXPECT_EQ(image.width, 60);
  EXPECT_EQ(image.height, 40);
  EXPECT_EQ(image.content_width, 120);
  EXPECT_EQ(image.content_height, 80);
  EXPECT_EQ(image.scale_x, 2);
  EXPECT_EQ(image.scale_y, 2);
  EXPECT_FALSE(image.flipped);
}

TEST_F(DetectionFiles, GiveTheBoxesThatTrain) {
  const Sample read = sample(set());
  // Neither crowd nor difficult, nor 0.8 pixels wide; the last box ends at the image's edge.
  ASSERT_EQ(read.truth.objects.size(), 2u);
  EXPECT_EQ(read.truth.images[0].count, 2u);
  expect_box(read.truth.objects[0].box, 20, 10, 60, 70);
  EXPECT_EQ(read.truth.objects[0].label, 1);
  expect_box(read.truth.objects[1].box, 100, 60, 120, 80);
  EXPECT_EQ(read.truth.objects[1].label, 0);
  const DetectionSet data = set();
  EXPECT_EQ(data.annotations()->images[0].objects.size(), 5u);  // evaluation sees all
}

TEST_F(DetectionFiles, AreMirroredWithTheirBoxes) {
  data_.flip = 1;
  const DetectionSet data = set();
  EXPECT_FALSE(sample(data).truth.images[0].flipped);  // evaluation
  const Sample read = sample(data, 0, true);
  ASSERT_TRUE(read.truth.images[0].flipped);
  EXPECT_NEAR(read.at(10, 10)[2], 255, 1e-3);
  EXPECT_NEAR(read.at(10, 110)[0], 255, 1e-3);
  EXPECT_EQ(read.at(10, 120)[0], 0);  // the mirrored image stays at the left of the canvas
  expect_box(read.truth.objects[0].box, 60, 10, 100, 70);
  expect_box(read.truth.objects[1].box, 0, 60, 20, 80);
}

TEST_F(DetectionFiles, AreMirroredAsOftenAsTheRecipeSays) {
  for (const double flip : {0.0, 0.25, 0.5, 1.0}) {
    data_.flip = flip;
    const DetectionSet data = set();
    int flipped = 0;
    for (int64_t epoch = 0; epoch < 400; ++epoch) flipped += sample(data, 0, true, epoch).truth.images[0].flipped;
    EXPECT_NEAR(flipped, 400 * flip, 4 * std::sqrt(400 * flip * (1 - flip)));  // four standard deviations
  }
  data_.augment = false;
  EXPECT_FALSE(sample(set(), 0, true).truth.images[0].flipped);
}

TEST_F(DetectionFiles, ScaleBoxesByTheRatioOfEachAxis) {
  data_.short_side = 33;  // 33 x 49: 49.5 is rounded down
  const Sample read = sample(set());
  EXPECT_EQ(read.truth.images[0].content_width, 49);
  EXPECT_EQ(read.truth.images[0].content_height, 33);
  expect_box(read.truth.objects[0].box, float(10.0 * 49 / 60), float(5.0 * 33 / 40), float(30.0 * 49 / 60),
             float(35.0 * 33 / 40));
}

TEST_F(DetectionFiles, TrainInSeveralSizesOnTheirCanvas) {
  data_.short_sides = {40, 64, 400};
  const DetectionSet data = set();
  EXPECT_EQ(sample(data).truth.images[0].content_height, 80);  // evaluation has one size
  std::map<int32_t, int> heights;
  for (int64_t epoch = 0; epoch < 100; ++epoch) {
    const Sample read = sample(data, 0, true, epoch);
    ++heights[read.truth.images[0].content_height];
    EXPECT_EQ(read.pixels, sample(data, 0, true, epoch).pixels);
  }
  ASSERT_EQ(heights.size(), 3u);
  for (const int32_t height : {40, 64, 96}) EXPECT_GT(heights[height], 10) << height;  // the canvas holds 96
}

TEST_F(DetectionFiles, AreAFunctionOfSeedEpochAndIndex) {
  data_.flip = 0.5;
  const DetectionSet one = set(), other = set();
  int same = 0;
  for (int64_t epoch = 0; epoch < 40; ++epoch) {
    EXPECT_EQ(sample(one, 0, true, epoch).pixels, sample(other, 0, true, epoch).pixels);
    same += sample(one, 0, true, epoch).pixels == sample(one, 0, true, epoch, 2).pixels;
  }
  EXPECT_LT(same, 40);
}

TEST_F(DetectionFiles, TheImageDecidesItsSize) {
  annotations_.images[0].width = 0, annotations_.images[0].height = 0;
  const DetectionSet data = set();
  EXPECT_EQ(data.annotations()->images[0].width, 60);
  EXPECT_EQ(data.annotations()->images[0].height, 40);
  annotations_.images[0].width = 600;  // a wrong annotation
  annotations_.images[0].height = 400;
  const Sample read = sample(set());
  EXPECT_EQ(read.truth.images[0].width, 60);
  expect_box(read.truth.objects[0].box, 20, 10, 60, 70);
}

TEST_F(DetectionFiles, ReadReducedJpegs) {
  add("b.jpg", encoded(picture(400, 600), ".jpg"));
  annotations_.images[1].height = 400, annotations_.images[1].width = 600;
  annotations_.images[1].objects = {{.box = {100, 50, 200, 300}, .area = 1, .label = 1}};
  const Sample read = sample(set(), 1);
  EXPECT_EQ(read.truth.images[0].content_width, 120);
  expect_box(read.truth.objects[0].box, 20, 10, 60, 70);
  EXPECT_NEAR(read.at(40, 20)[0], 255, 6);
  EXPECT_NEAR(read.at(40, 100)[2], 255, 6);
}

TEST_F(DetectionFiles, BadImagesStopOrAreSkipped) {
  add("b.png", start_of(encoded(picture(40, 60), ".png"), 60));
  expect_says(message_of<Error>([&] { sample(set(), 1); }), {"b.png", "data.bad_images: skip"});
  data_.bad_images = "skip";
  const DetectionSet data = set();
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    const Sample read = sample(data, 1, true, epoch);
    EXPECT_FALSE(read.present);
    EXPECT_TRUE(read.truth.images.empty());
  }
  EXPECT_EQ(data.skipped(), 1);
  annotations_.images[1].width = 0;  // so that its size cannot be known
  EXPECT_EQ(set().skipped(), 0);     // but a header is there
  write_file(folder_.path() / "b.png", {1, 2, 3});
  EXPECT_EQ(set().skipped(), 1);
}

TEST_F(DetectionFiles, HaveAFingerprintOfWhatTheyShow) {
  const uint64_t before = set().fingerprint();
  EXPECT_EQ(set().fingerprint(), before);
  const Annotations original = annotations_;
  const auto differs = [&](auto change) {
    annotations_ = original;
    change(annotations_.images[0]);
    EXPECT_NE(set().fingerprint(), before);
  };
  differs([](AnnotatedImage& image) { image.name = "b.png"; });
  differs([](AnnotatedImage& image) { image.height = 41; });
  differs([](AnnotatedImage& image) { image.objects[0].box.x = 11; });
  differs([](AnnotatedImage& image) { image.objects[0].label = 0; });
  differs([](AnnotatedImage& image) { image.objects[1].crowd = false; });
  differs([](AnnotatedImage& image) { image.objects.pop_back(); });
}

}  // namespace
}  // namespace octet
