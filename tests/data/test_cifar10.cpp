#include <cmath>
#include <cstdlib>
#include <cstring>

#include "src/data/images/normalization.h"
#include "src/data/images/pixels.h"
#include "tests/data/support.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

constexpr int64_t record = 3073, full = 10000 * record;
constexpr float kMean[] = {0.4914f, 0.4822f, 0.4465f}, kDeviation[] = {0.2470f, 0.2435f, 0.2616f};

Config config_for(const fs::path& root) {
  Config config;
  config.data.name = "cifar10";
  config.data.root = root.string();
  return config;
}

// Six files of the right size; all zero: label 0, black.
void write_black_files(const fs::path& folder) {
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                           "data_batch_5.bin", "test_batch.bin"}) {
    write_file(folder / name, {});
    fs::resize_file(folder / name, full);
  }
}

void overwrite(const fs::path& file, int64_t at, const std::vector<uint8_t>& bytes) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekp(at);
  stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
}

std::vector<uint8_t> some_record(uint8_t label) {
  std::vector<uint8_t> bytes(record);
  bytes[0] = label;
  for (int64_t i = 1; i < record; ++i) bytes[i] = static_cast<uint8_t>(i * 37 + i / 11);
  return bytes;
}

TEST(Cifar10, ReadsPlanesIntoPixels) {
  TemporaryFolder folder;
  const fs::path inner = folder.path() / "cifar-10-batches-bin";
  write_black_files(inner);
  const auto bytes = some_record(7);
  overwrite(inner / "data_batch_2.bin", 5 * record, bytes);
  for (const fs::path& root : {folder.path(), inner}) {
    const Datasets sets = open_datasets(config_for(root));
    EXPECT_EQ(sets.train->size(), 50000);
    EXPECT_EQ(sets.test->size(), 10000);
    EXPECT_EQ(sets.train->label(10004), 0);
    ASSERT_EQ(sets.train->label(10005), 7);
    const auto pixels = pixels_of(*sets.train, 10005);
    for (int64_t i = 0; i < 1024; ++i)
      for (int64_t c = 0; c < 3; ++c) ASSERT_EQ(pixels[i * 3 + c], bytes[1 + c * 1024 + i]);
  }
}

TEST(Cifar10, IsNormalizedAsTheConfigurationSays) {
  Config config;
  const uint8_t bytes[] = {0, 255, 51, 255, 9, 9, 9, 0};  // the second pixel does not exist
  const auto values = [&] {
    std::vector<float> two(6);
    normalize_pixels(normalization(config.data, of_cifar10).pixels(), bytes, 2, two.data());
    for (size_t c = 3; c < 6; ++c) EXPECT_EQ(two[c], 0);
    return two;
  };
  constexpr float shares[] = {0, 1, 0.2f};
  auto pixels = values();
  for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(pixels[c], (shares[c] - kMean[c]) / kDeviation[c], 2e-6f);
  config.data.mean = {0.1, 0.2, 0.3};
  pixels = values();
  for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(pixels[c], (shares[c] - 0.1f * float(c + 1)) / kDeviation[c], 2e-6f);
  config.data.deviation = {0.5, 0.25, 1};
  pixels = values();
  for (size_t c = 0; c < 3; ++c)
    EXPECT_NEAR(pixels[c], (shares[c] - 0.1f * float(c + 1)) / float(config.data.deviation[c]), 2e-6f);
}

// Every augmented picture is one of the 81 crops of the picture with a border of zero pixels, flipped or not, and over
// the epochs all of them come.
TEST(Cifar10, AugmentsByCropsOfThePaddedPictureAndFlips) {
  Pixels pixels;
  pixels.padding = 4;
  const auto bytes = some_record(3);
  parse_cifar10(bytes, "memory", 1, pixels);
  const auto picture = pixels.images;
  const auto data = make_dataset(std::move(pixels));
  const auto crop = [&](int down, int right, bool flip) {
    std::vector<float> result;
    for (int y = 0; y < 32; ++y)
      for (int x = 0; x < 32; ++x)
        for (int c = 0; c < 3; ++c) {
          const int from_y = y + down, from_x = (flip ? 31 - x : x) + right;
          const bool inside = from_y >= 0 && from_y < 32 && from_x >= 0 && from_x < 32;
          result.push_back(inside ? picture[(from_y * 32 + from_x) * 3 + c] : 0);
        }
    return result;
  };
  std::vector<std::vector<float>> crops;
  for (int down = -4; down <= 4; ++down)
    for (int right = -4; right <= 4; ++right)
      for (bool flip : {false, true}) crops.push_back(crop(down, right, flip));
  std::vector<int> seen(crops.size());
  for (int64_t epoch = 0; epoch < 3000; ++epoch) {
    const auto found = std::find(crops.begin(), crops.end(), pixels_of(*data, 0, true, 1, epoch));
    ASSERT_NE(found, crops.end());
    ++seen[found - crops.begin()];
  }
  // 3000 draws of 162 cases: 18.5 +- 4.3 each; missing one at all has probability 1e-6.
  for (int count : seen) EXPECT_GT(count, 0);
  EXPECT_EQ(pixels_of(*data, 0, true, 1, 5), pixels_of(*data, 0, true, 1, 5));
}

TEST(Cifar10, NamesMissingAndDamagedFiles) {
  TemporaryFolder folder;
  write_black_files(folder.path());
  const Config config = config_for(folder.path());
  const fs::path file = folder.path() / "data_batch_4.bin";
  for (int64_t size : {int64_t{0}, int64_t{1}, record - 1, record, full / 2, full - record, full - 1, full + 1}) {
    fs::resize_file(file, size);
    expect_says(message_of<Error>([&] { open_datasets(config); }),
                {"data_batch_4.bin", std::to_string(size).c_str(), "expected 30730000", "fix:"});
  }
  fs::resize_file(file, full);
  overwrite(file, 123 * record, {10});
  expect_says(message_of<Error>([&] { open_datasets(config); }),
              {"data_batch_4.bin", "record 123", "label 10", "0 .. 9"});
  fs::remove(file);
  expect_says(message_of<Error>([&] { open_datasets(config); }), {"data_batch_4.bin", "no such file"});
  fs::create_directory(file);
  expect_says(message_of<Error>([&] { open_datasets(config); }), {"data_batch_4.bin", "no such file"});
}

TEST(Cifar10, ReadsTheRealFiles) {
  const char* root = getenv("OCTET_CIFAR10");
  if (!root) GTEST_SKIP() << "set OCTET_CIFAR10 to the folder of CIFAR-10 to test with it";
  const Datasets sets = open_datasets(config_for(root));
  // The set's own mean and deviation are what it is normalized with: over every tenth image they come out as 0 and 1.
  double sum[3] = {}, squares[3] = {};
  std::vector<int> labels(10);
  int64_t count = 0;
  for (int64_t i = 0; i < sets.train->size(); ++i) {
    ++labels[sets.train->label(i)];
    if (i % 10) continue;
    const auto pixels = pixels_of(*sets.train, i, false, 1, 0, of_cifar10.pixels());
    for (size_t j = 0; j < pixels.size(); ++j) {
      sum[j % 3] += pixels[j];
      squares[j % 3] += pixels[j] * pixels[j];
    }
    count += 1024;
  }
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(sum[c] / static_cast<double>(count), 0, 0.03);
    EXPECT_NEAR(std::sqrt(squares[c] / static_cast<double>(count)), 1, 0.03);
  }
  for (int n : labels) EXPECT_EQ(n, 5000);
}

}  // namespace
}  // namespace octet
