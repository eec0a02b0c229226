// Evaluation reads the pixels that torchvision reads: tests/golden/make_evaluation_images.py.
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/data/augment/crops.h"
#include "src/data/images/image_format.h"
#include "src/data/images/pixels.h"
#include "src/data/sources/pack.h"
#include "tests/data/files.h"

namespace octet {
namespace {

// The largest difference between a test image of a folder or a pack and the expected bytes.
int largest_difference(const Config& config, const std::vector<uint8_t>& expected) {
  const std::vector<float> pixels = pixels_of(*open_datasets(config, false).test, 0);
  EXPECT_EQ(pixels.size(), expected.size());
  int largest = 0;
  for (size_t i = 0; i < pixels.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<int>(std::lround(pixels[i])) - expected[i]));
  return largest;
}

TEST(EvaluationImages, AreThoseOfTorchvision) {
  const char* const other = std::getenv("OCTET_EVALUATION_IMAGES");
  const std::string file = other ? other : OCTET_SOURCE_DIR "/tests/golden/evaluation_images.json";
  for (const auto& image : nlohmann::json::parse(std::ifstream(file))) {
    TemporaryFolder folder;
    for (const char* split : {"train", "val"})
      for (const char* name : {"a", "b"})
        write_file(folder.path() / "images" / split / name / "1.jpg", bytes_in_hex(image["file"]));
    Config config;
    config.data.name = "image_folder";
    config.data.root = (folder.path() / "images").string();
    config.data.image_size = image["side"];
    config.model.classes = 2;
    const std::vector<uint8_t> expected = bytes_in_hex(image["pixels"]);
    EXPECT_EQ(largest_difference(config, expected), 0) << image["name"];
    Config packed = config;
    packed.data.name = "packed";
    packed.data.root = (folder.path() / "packed").string();
    pack_image_folder(config, packed.data.root);
    EXPECT_EQ(largest_difference(packed, expected), 0) << image["name"] << ", packed";
  }
}

// Of images in memory, evaluation reads all of a resized image, and training random parts.
TEST(EvaluationImages, ImagesInMemoryAreResized) {
  const cv::Mat image = picture(32, 32);
  Pixels pixels;
  pixels.images.assign(image.data, image.data + 3 * image.total());
  pixels.labels = {1};
  pixels.classes = {"a", "b"};
  Config config;
  config.data.name = "cifar10";
  config.data.root = "unused";
  config.data.image_size = 48;
  const auto data = make_resized(std::move(pixels), config);
  EXPECT_EQ(data->shape().width, 48);
  EXPECT_EQ(data->label(0), 1);
  const Raster expected = resized_part(raster_of(image), {48, 48}, {0, 0, 48, 48});
  const std::vector<float> read = pixels_of(*data, 0);
  ASSERT_EQ(read.size(), expected.bytes().size());
  for (size_t i = 0; i < read.size(); ++i) EXPECT_EQ(std::lround(read[i]), expected.data[i]) << i;
  EXPECT_EQ(pixels_of(*data, 0, true, 1, 5), pixels_of(*data, 0, true, 1, 5));
  EXPECT_NE(pixels_of(*data, 0, true, 1, 5), pixels_of(*data, 0, true, 1, 6));
}

TEST(Exif, DamagedDataHaveNoOrientation) {
  const std::vector<uint8_t> whole = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0};
  const auto of = [](const std::vector<uint8_t>& exif) { return orientation_of(tiff_fields(exif), {}); };
  EXPECT_EQ(of(whole), 6);
  for (size_t size = 0; size + 2 < whole.size(); ++size) EXPECT_EQ(of(start_of(whole, size)), 1);
  for (size_t at = 0; at < whole.size(); ++at)
    for (const int value : {0, 9, 0x7F, 0xFF}) {
      auto damaged = whole;
      damaged[at] = static_cast<uint8_t>(value);
      const int orientation = of(damaged);
      EXPECT_TRUE(orientation == 1 || orientation == 6) << at;
    }
}

// Training reads images upright too, and a picture that is high is cropped as one.
TEST(Exif, TurnsTrainingImages) {
  TemporaryFolder folder;
  const cv::Mat high = picture(60, 40);  // red on the left, blue on the right
  cv::Mat stored;
  cv::rotate(high, stored, cv::ROTATE_90_COUNTERCLOCKWISE);
  const auto jpeg = encoded(stored, ".jpg");
  for (const char* split : {"train", "val"}) {
    write_file(folder.path() / split / "upright" / "1.png", encoded(high, ".png"));
    write_file(folder.path() / split / "turned" / "1.jpg", with_orientation(jpeg, 6));
  }
  Config config;
  config.data.name = "image_folder";
  config.data.root = folder.path().string();
  config.data.image_size = 32;
  config.data.batch = 1;
  config.model.classes = 2;
  const Datasets sets = open_datasets(config);
  ASSERT_EQ(sets.train->label(0), 0);  // "turned"
  int mirrored = 0, straight = 0;
  for (int64_t epoch = 0; epoch < 100; ++epoch) {
    const auto pixels = pixels_of(*sets.train, 0, true, 1, epoch);
    for (int x = 0; x < 32; ++x)  // every column has one colour
      EXPECT_NEAR(pixels[x * 3], pixels[(31 * 32 + x) * 3], 18) << epoch;
    mirrored += pixels[0] < pixels[31 * 3] - 58;
    straight += pixels[0] > pixels[31 * 3] + 58;
  }
  EXPECT_GT(mirrored, 10);
  EXPECT_GT(straight, 10);
}

}  // namespace
}  // namespace octet
