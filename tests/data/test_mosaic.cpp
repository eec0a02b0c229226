// Mosaics: functions of seed, epoch and index, whose boxes are those of the pixels.
#include <algorithm>
#include <cmath>
#include <opencv2/imgproc.hpp>

#include "src/data/augment/mosaic.h"
#include "src/data/images/bad_images.h"
#include "src/data/sources/detection_set.h"
#include "tests/data/support.h"

namespace octet {
namespace {

// Blue images of several sizes: image i has a red object of class i % 2, a green crowd and a green difficult
// object.
class MosaicSet : public testing::Test {
 protected:
  MosaicSet() {
    config_.augment.mosaic = 1, config_.train.epochs = 1000, config_.augment.mosaic_until = 1;
    config_.data.canvas_heights = {160, 256}, config_.data.canvas_widths = {256, 160};
    config_.data.short_side = 128;
    annotations_.classes = {"cat", "dog"};
    annotations_.category_ids = {1, 2};
    add(cv::Size(200, 128), cv::Rect(100, 50, 60, 40));
    add(cv::Size(128, 150), cv::Rect(20, 70, 50, 70));
    add(cv::Size(64, 64), cv::Rect(10, 10, 30, 40));
    add(cv::Size(400, 256), cv::Rect(0, 0, 150, 90));
    add(cv::Size(300, 300), cv::Rect(190, 180, 110, 120));
  }
  void add(cv::Size size, cv::Rect object) {
    cv::Mat image(size, CV_8UC3, cv::Scalar(0, 0, 255));
    image(cv::Rect(size.width - 8, 0, 8, 8)) = cv::Scalar(0, 255, 0);
    image(object) = cv::Scalar(255, 0, 0);
    const BoxInFile box{double(object.x), double(object.y), double(object.width), double(object.height)};
    const BoxInFile corner{double(size.width - 8), 0, 8, 8}, whole{0, 0, double(size.width), double(size.height)};
    annotations_.images.push_back({.id = int64_t(pictures_.size()) + 1,
                                   .name = std::to_string(pictures_.size()),
                                   .path = {},
                                   .width = size.width,
                                   .height = size.height,
                                   .objects = {{.box = box, .label = int32_t(pictures_.size() % 2)},
                                               {.box = whole, .crowd = true},
                                               {.box = corner, .difficult = true}}});
    pictures_.push_back(image);
  }
  DetectionSet set() const {
    const auto open = [pictures = pictures_, bad = bad_](int64_t index) {
      if (index == bad) throw BadImage(ImageFault::damaged, "it is damaged", "repair it");
      const cv::Mat& picture = pictures[size_t(index)];
      return OpenedImage{{picture.rows, picture.cols}, [picture](double) { return raster_of(picture); }};
    };
    return {"test", annotations_, open, config_.data, 0, Mosaics(config_)};
  }
  Config config_;
  Annotations annotations_;
  std::vector<cv::Mat> pictures_;
  int64_t bad_ = -1;
};

struct ReadPicture {
  bool present = false;
  cv::Mat pixels;
  Truth truth;
  bool operator==(const ReadPicture& other) const {
    const auto same = [](const Truth::Object& a, const Truth::Object& b) {
      return a.label == b.label && a.box.x1 == b.box.x1 && a.box.y1 == b.box.y1 && a.box.x2 == b.box.x2 &&
             a.box.y2 == b.box.y2;
    };
    return present == other.present && cv::norm(pixels, other.pixels, cv::NORM_INF) == 0 &&
           std::ranges::equal(truth.objects, other.truth.objects, same);
  }
};
ReadPicture read_of(const DetectionSet& set, int64_t index, bool training, int64_t epoch, uint64_t seed = 1) {
  const ImageShape shape = set.canvas_shape(set.canvas(index));
  ReadPicture read{false, cv::Mat(int(shape.height), int(shape.width), CV_8UC4, cv::Scalar::all(77)), {}};
  read.present = set.read_with_truth(index, training, seed, epoch, read.pixels.data, read.truth);
  return read;
}

// The pixels of a quarter in which one channel is above half.
cv::Mat where(const ReadPicture& read, const Mosaic& mosaic, int quarter, int channel) {
  const int x = int(mosaic.center_x), y = int(mosaic.center_y);
  const cv::Rect area(quarter % 2 ? x : 0, quarter / 2 ? y : 0, quarter % 2 ? read.pixels.cols - x : x,
                      quarter / 2 ? read.pixels.rows - y : y);
  std::vector<cv::Mat> channels;
  cv::split(read.pixels, channels);
  cv::Mat chosen(read.pixels.size(), CV_8U, cv::Scalar(0));
  cv::Mat(channels[size_t(channel)](area) > 127).copyTo(chosen(area));
  return chosen;
}

TEST_F(MosaicSet, BoxesEncloseThePixelsOfTheirObjects) {
  const DetectionSet data = set();
  int boxes = 0, dropped = 0;
  for (int64_t epoch = 0; epoch < 150; ++epoch) {
    const int64_t index = epoch % 5;
    const ImageShape shape = data.canvas_shape(data.canvas(index));
    const ReadPicture read = read_of(data, index, true, epoch);
    const auto mosaic = Mosaics(config_).drawn(1, epoch, index, 5, shape);
    ASSERT_TRUE(read.present && mosaic);
    ASSERT_EQ(read.truth.images.size(), 1u);
    EXPECT_EQ(read.truth.images[0].count, read.truth.objects.size());
    EXPECT_EQ(read.truth.images[0].index, index);
    size_t at = 0;  // objects come in the order of the parts
    for (const Mosaic::Part& part : mosaic->parts) {
      const cv::Mat red = where(read, *mosaic, part.quarter, 0);
      const cv::Rect seen = cv::boundingRect(red);
      const AnnotatedImage& file = annotations_.images[size_t(part.sample)];
      const Truth::Image place =
          octet::place(Canvases(config_.data), data.canvas(index), {file.height, file.width}, 128);
      const BoxInFile& whole = file.objects[0].box;
      const double area = whole.width * whole.height * place.scale_x * place.scale_y * part.scale * part.scale;
      const double border = seen.width + seen.height + 2;
      const bool has_box =
          at < read.truth.objects.size() && seen.width > 0 &&
          std::abs(read.truth.objects[at].box.center_x() - float(seen.x) - float(seen.width) / 2) < 1 &&
          std::abs(read.truth.objects[at].box.center_y() - float(seen.y) - float(seen.height) / 2) < 1;
      if (!has_box) {
        EXPECT_LT(seen.area(), 0.1 * area + border);
        ++dropped;
        continue;
      }
      const auto& [box, label] = read.truth.objects[at++];
      EXPECT_GT(seen.area(), 0.1 * area - border);
      EXPECT_EQ(label, part.sample % 2);
      EXPECT_NEAR(box.x1, seen.x, 1) << epoch;
      EXPECT_NEAR(box.y1, seen.y, 1) << epoch;
      EXPECT_NEAR(box.x2, seen.x + seen.width, 1) << epoch;
      EXPECT_NEAR(box.y2, seen.y + seen.height, 1) << epoch;
      ++boxes;
    }
    EXPECT_EQ(at, read.truth.objects.size()) << "an object without pixels";
  }
  EXPECT_GT(boxes, 250);
  EXPECT_GT(dropped, 25);
}

TEST_F(MosaicSet, QuartersMeetAtTheCenter) {
  const DetectionSet data = set();
  for (int64_t epoch = 0; epoch < 50; ++epoch) {
    const ReadPicture read = read_of(data, 0, true, epoch);
    const auto mosaic = Mosaics(config_).drawn(1, epoch, 0, 5, data.canvas_shape(0));
    const int x = int(mosaic->center_x), y = int(mosaic->center_y);
    for (const cv::Point at : {cv::Point(x - 1, y - 1), cv::Point(x, y - 1), cv::Point(x - 1, y), cv::Point(x, y)})
      EXPECT_EQ(read.pixels.at<cv::Vec4b>(at)[3], 255);
    const Truth::Image& image = read.truth.images[0];
    EXPECT_GT(image.content_width, x);
    EXPECT_GT(image.content_height, y);
    EXPECT_EQ(image.width, image.content_width);
    for (int row = 0; row < read.pixels.rows; ++row)  // nothing outside of the content
      for (int column = 0; column < read.pixels.cols; ++column)
        if (row >= image.content_height || column >= image.content_width) {
          ASSERT_EQ(read.pixels.at<cv::Vec4b>(row, column)[3], 0);
        }
  }
}

TEST_F(MosaicSet, AreAFunctionOfSeedEpochAndIndexAndEndInTime) {
  config_.augment.mosaic = 0.5, config_.augment.mosaic_until = 0.9, config_.train.epochs = 200;
  const DetectionSet one = set(), other = set();
  config_.augment.mosaic = 0;
  const DetectionSet plain = set();
  int mosaics = 0, same_with_another_seed = 0;
  for (int64_t epoch = 0; epoch < 200; ++epoch) {
    const ReadPicture read = read_of(one, 1, true, epoch);
    EXPECT_EQ(read, read_of(other, 1, true, epoch));
    const bool is_mosaic = !(read == read_of(plain, 1, true, epoch));
    mosaics += is_mosaic;
    EXPECT_FALSE(epoch >= 180 && is_mosaic) << epoch;
    same_with_another_seed += read == read_of(one, 1, true, epoch, 2);
  }
  EXPECT_NEAR(mosaics, 90, 27);  // four standard deviations
  EXPECT_LT(same_with_another_seed, 80);
  EXPECT_EQ(read_of(one, 1, false, 0), read_of(plain, 1, false, 0)) << "evaluation";
}

TEST_F(MosaicSet, LastEpochsAreRounded) {
  const auto has_mosaics = [&](int64_t epochs, int64_t epoch) {
    config_.augment.mosaic = 1, config_.augment.mosaic_until = 0.9, config_.train.epochs = epochs;
    return Mosaics(config_).drawn(1, epoch, 0, 5, {160, 256, 3}).has_value();
  };
  EXPECT_TRUE(has_mosaics(1, 0));
  EXPECT_TRUE(has_mosaics(10, 8));
  EXPECT_FALSE(has_mosaics(10, 9));
  EXPECT_TRUE(has_mosaics(300, 269));
  EXPECT_FALSE(has_mosaics(300, 270));
  EXPECT_FALSE(Mosaics().drawn(1, 0, 0, 5, {160, 256, 3}));
}

TEST_F(MosaicSet, BadImagesLeaveTheirQuarterEmpty) {
  bad_ = 2;
  EXPECT_THROW(
      {
        const DetectionSet data = set();
        for (int64_t epoch = 0; epoch < 20; ++epoch) read_of(data, 0, true, epoch);
      },
      Error);
  config_.data.bad_images = "skip";
  const DetectionSet data = set();
  int empty = 0;
  for (int64_t epoch = 0; epoch < 40; ++epoch) {
    const ReadPicture own = read_of(data, 2, true, epoch);
    EXPECT_FALSE(own.present);
    EXPECT_TRUE(own.truth.images.empty());
    const ReadPicture read = read_of(data, 0, true, epoch);
    ASSERT_TRUE(read.present);
    const auto mosaic = Mosaics(config_).drawn(1, epoch, 0, 5, data.canvas_shape(0));
    for (const Mosaic::Part& part : mosaic->parts) {
      const int pixels = cv::countNonZero(where(read, *mosaic, part.quarter, 3));
      EXPECT_EQ(pixels == 0, part.sample == 2);
      empty += pixels == 0;
    }
  }
  EXPECT_GT(empty, 5);
  EXPECT_EQ(data.skipped(), 1);
}

TEST(Mosaic, BatchesAreTheSameForAnyRanksAndWorkers) {
  Config config;
  config.data.name = "shapes_detection";
  config.data.samples = 32, config.data.image_size = 64, config.data.batch = 8, config.model.classes = 0;
  config.augment.mosaic = 0.5;
  const Datasets sets = open_datasets(config);
  const auto read = [&](int ranks, int64_t workers) {
    std::pair<std::vector<uint8_t>, std::vector<float>> all;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto loader = make_loader(*sets.train, true, 8, rank, ranks, workers, 3);
      loader->start(5);
      const Batch& batch = loader->next();
      const auto* const bytes = static_cast<const uint8_t*>(batch.images);
      all.first.insert(all.first.end(), bytes, bytes + batch.count * 64 * 64 * pixel_channels);
      for (const auto& [box, label] : batch.targets.truth->objects)
        all.second.insert(all.second.end(), {box.x1, box.y1, box.x2, box.y2, float(label)});
    }
    return all;
  };
  EXPECT_EQ(read(1, 3), read(1, 1));
  EXPECT_EQ(read(2, 2), read(1, 1));
  EXPECT_GT(read(1, 1).second.size(), 50u);
}

}  // namespace
}  // namespace octet
