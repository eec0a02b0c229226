#include <cmath>
#include <map>
#include <random>

#include "src/data/sources/detection_set.h"
#include "tests/data/annotated.h"
#include "tests/data/files.h"

namespace octet {
namespace {

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
    OpenImage files = image_files(annotations_, data_, as_the_set([this] { return annotations_; }, data_));
    return {"test", annotations_, std::move(files), data_};
  }
  struct Sample {
    std::vector<uint8_t> pixels;
    Truth truth;
    bool present = false;
    const uint8_t* at(int64_t y, int64_t x) const { return &pixels[(y * 160 + x) * 4]; }
  };
  static Sample sample(const DetectionSet& set, int64_t index = 0, bool training = false, int64_t epoch = 0,
                       uint64_t seed = 1) {
    const ImageShape shape = set.canvas_shape(set.canvas(index));
    Sample sample{std::vector<uint8_t>(shape.height * shape.width * 4, 77), {}, false};
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
      EXPECT_EQ(read.at(y, x)[3], content ? 255 : 0) << y << ' ' << x;
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
}

TEST_F(DetectionFiles, OfAnotherSizeThanAnnotatedAreRefused) {
  annotations_.images[0].width = 600;
  annotations_.images[0].height = 400;
  expect_says(message_of<UsageError>([&] { sample(set()); }),
              {"a.png", "60 x 40", "600 x 400", "use the images that were annotated", "data.bad_images: skip"});
  annotations_.images[0].width = 40, annotations_.images[0].height = 60;
  expect_says(message_of<UsageError>([&] { sample(set()); }), {"width and height are exchanged"});
  data_.bad_images = "skip";
  EXPECT_FALSE(sample(set()).present);
}

// Where EXIF's orientation puts a pixel of a stored picture, from the tables of the EXIF standard: the sides of the
// seen picture at which the first stored row and the first stored column are.
cv::Point seen_at(cv::Point stored, cv::Size size, int orientation) {
  const bool turned = orientation >= 5;
  const int row = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7
                      ? size.height - 1 - stored.y  // the first row is at the bottom, or on the right
                      : stored.y;
  const int column = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8
                         ? size.width - 1 - stored.x  // the first column is on the right, or at the bottom
                         : stored.x;
  return turned ? cv::Point(row, column) : cv::Point(column, row);
}

// Random pictures with one white object, stored in every orientation, with annotations of the stored and of the upright
// picture, of another one and of none. The pixels of the box that trains are white, and all others are black.
TEST_F(DetectionFiles, BoxesMeanTheSamePixelsInEveryOrientation) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](int end) { return static_cast<int>(random() % static_cast<uint64_t>(end)); };
  data_.canvas_heights = {256}, data_.canvas_widths = {256}, data_.short_side = 0;
  for (int round = 0; round < 60; ++round) {
    const int orientation = 1 + round % 8;
    const cv::Size stored(8 * (2 + below(12)), 8 * (2 + below(12)));
    const cv::Size upright = orientation >= 5 ? cv::Size(stored.height, stored.width) : stored;
    const cv::Rect object(8 * below(stored.width / 8), 8 * below(stored.height / 8), 8, 8);  // a block of JPEG
    cv::Mat image(stored, CV_8UC3, cv::Scalar(0, 0, 0));
    image(object) = cv::Scalar(255, 255, 255);
    const cv::Point one = seen_at(object.tl(), stored, orientation),
                    two = seen_at(object.br() - cv::Point(1, 1), stored, orientation);
    const cv::Rect seen(std::min(one.x, two.x), std::min(one.y, two.y), 8, 8);
    annotations_.images.clear();
    add("photograph.jpg", with_orientation(encoded(image, ".jpg"), orientation));
    const auto read_with = [&](cv::Size annotated, const char* turn_upright, const cv::Rect& box) {
      AnnotatedImage& of = annotations_.images[0];
      of.width = annotated.width, of.height = annotated.height;
      of.objects = {{.box = {double(box.x), double(box.y), 8, 8}, .area = 64}};
      data_.turn_upright = turn_upright;
      return sample(set());
    };
    const auto expect_white = [&](cv::Size annotated, const char* turn_upright, const cv::Rect& box, cv::Size size) {
      SCOPED_TRACE(testing::Message() << "orientation " << orientation << ", " << turn_upright << ", annotated as "
                                      << annotated.width << " x " << annotated.height);
      const Sample read = read_with(annotated, turn_upright, box);
      ASSERT_TRUE(read.present);
      EXPECT_EQ(read.truth.images[0].width, size.width);
      EXPECT_EQ(read.truth.images[0].height, size.height);
      ASSERT_EQ(read.truth.objects.size(), 1u);
      expect_box(read.truth.objects[0].box, float(box.x), float(box.y), float(box.x + 8), float(box.y + 8));
      for (int y = 0; y < size.height; ++y)
        for (int x = 0; x < size.width; ++x) {
          const uint8_t* const pixel = &read.pixels[(size_t(y) * 256 + size_t(x)) * 4];
          ASSERT_NEAR(pixel[0], box.contains({x, y}) ? 255 : 0, 8) << x << ' ' << y;
        }
    };
    const bool clear = stored != upright;  // the size says which picture was annotated
    const auto expect_undecided = [&](cv::Size annotated) {
      if (orientation == 1) return expect_white(annotated, "auto", object, stored);
      expect_says(message_of<UsageError>([&] { read_with(annotated, "auto", object); }),
                  {"photograph.jpg (one of 1 such images)", "set data.turn_upright to true", "to false"});
    };
    if (clear)
      expect_white(stored, "auto", object, stored);
    else
      expect_undecided(stored);
    expect_undecided({0, 0});
    expect_white(stored, "false", object, stored);
    expect_white({0, 0}, "false", object, stored);
    expect_white({0, 0}, "true", seen, upright);
    expect_white(upright, "true", seen, upright);
    if (!clear) continue;
    expect_white(upright, "auto", seen, upright);
    expect_says(message_of<UsageError>([&] { read_with(upright, "false", seen); }),
                {"data.turn_upright: auto", "EXIF"});
    expect_says(message_of<UsageError>([&] { read_with(stored, "true", object); }), {"data.turn_upright: auto"});
    expect_says(message_of<UsageError>([&] {
                  read_with({stored.width + 1, stored.height}, "auto", object);
                }),
                {"photograph.jpg"});
  }
}

TEST_F(DetectionFiles, OtherImagesOfTheSetSayWhatBoxesMean) {
  const auto add_turned = [&](const char* name, int orientation, int width, int height) {
    add(name, with_orientation(encoded(picture(40, 60), ".jpg"), orientation));
    annotations_.images.back().width = width, annotations_.images.back().height = height;
  };
  const auto is_upright = [&](const char* name) {  // of an image with orientation 3: its left half is then blue
    const auto at = std::ranges::find(annotations_.images, std::string(name), &AnnotatedImage::name);
    return set().picture(at - annotations_.images.begin()).ptr(4, 4)[2] > 128;
  };
  annotations_.images.clear();
  add_turned("down.jpg", 3, 60, 40);
  add_turned("mirrored.jpg", 4, 60, 40);
  add_turned("another size.jpg", 6, 41, 61);
  add("straight.jpg", encoded(picture(60, 40), ".jpg"));
  add("bad.jpg", {0xFF, 0xD8, 0xFF});
  const auto message = [&] { return message_of<UsageError>([&] { set().picture(0); }); };
  data_.bad_images = "skip";  // the image is not bad
  expect_says(message(), {"down.jpg (one of 2 such images) is stored turned or mirrored", "no other image",
                          "set data.turn_upright to true if the boxes were drawn on upright", "to false"});
  EXPECT_THROW(sample(set(), 1), UsageError);

  add_turned("portrait.jpg", 6, 40, 60);
  add_turned("portrait 2.jpg", 8, 40, 60);
  for (int round = 0; round < 4; ++round, std::ranges::reverse(annotations_.images)) {
    data_.workers = 1 + round;
    EXPECT_TRUE(is_upright("down.jpg"));
  }
  for (const size_t i : {5u, 6u}) std::swap(annotations_.images[i].width, annotations_.images[i].height);
  EXPECT_FALSE(is_upright("down.jpg"));
  std::swap(annotations_.images[6].width, annotations_.images[6].height);
  expect_says(message(), {"down.jpg (one of 2 such images)", "1 are annotated upright, and 1 as stored",
                          "without EXIF's orientation"});
  data_.turn_upright = "true";
  EXPECT_TRUE(is_upright("down.jpg"));
}

// An image that does not train decides too, as it does for `octet check`; the other split does not.
TEST(DetectionSplits, DecideWhatBoxesMeanAsAWhole) {
  const CocoFolder folder;  // b.jpg has 100 x 80 pixels and objects, a.jpg 50 x 40 and a crowd
  Config config = folder.config();
  config.data.empty_images = "skip";
  config.data.batch = 1, config.data.workers = 1, config.model.classes = 2;
  config.data.canvas_heights = {96}, config.data.canvas_widths = {128};
  const auto down = with_orientation(encoded(picture(80, 100), ".jpg"), 3);
  const auto portrait = with_orientation(encoded(picture(50, 40), ".jpg"), 6);
  write_file(folder.path() / "train2017/b.jpg", down);
  write_file(folder.path() / "train2017/a.jpg", portrait);
  write_file(folder.path() / "val2017/b.jpg", down);
  write_file(folder.path() / "val2017/a.jpg", encoded(picture(40, 50), ".jpg"));
  const Datasets sets = open_datasets(config);
  ASSERT_EQ(sets.train->size(), 1);
  const auto first = [](const Dataset& data) { return dynamic_cast<const DetectionSet&>(data).picture(0); };
  EXPECT_GT(first(*sets.train).ptr(4, 4)[2], 128);
  expect_says(message_of<UsageError>([&] { first(*sets.test); }), {"val2017/b.jpg", "data.turn_upright"});
}

// Boxes in shares of the image, and objects that the canvas shrinks below a pixel.
TEST_F(DetectionFiles, WithoutAVisibleObjectAreRefused) {
  annotations_.images[0].objects = {{.box = {0.25, 0.5, 0.5, 0.25}, .area = 0.1}, {.box = {0, 0, 1, 0.9}, .area = 1}};
  data_.short_side = 0;
  expect_says(message_of<UsageError>([&] { set(); }), {"no object", "give boxes in pixels", "1"});
  annotations_.images[0].objects = {{.box = {10, 10, 4, 4}, .area = 16}};
  set();  // four pixels
  data_.short_side = 8;
  expect_says(message_of<UsageError>([&] { set(); }), {"no object", "larger canvases"});
  data_.short_sides = {4, 12};
  set();  // visible in one of the sizes of training
  annotations_.images[0].objects.clear();
  set();  // an image without objects
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
