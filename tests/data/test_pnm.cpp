// PNM files of every maximum: the values fill the range of 8 bits.
#include <random>

#include "tests/data/decoded.h"
#include "tests/memory/guarded.h"

namespace octet {
namespace {

struct PnmFile {
  char kind = '6';  // of the mark: P2, P3, P5 or P6
  int width = 1, height = 1, maximum = 255;
  std::vector<int> values = {};
  std::string space = "\n";  // between numbers

  std::vector<uint8_t> bytes() const {
    std::string text = say("P", kind, space, width, space, height, space, maximum, "\n");
    for (const int value : values) {
      if (kind < '4') {
        text += say(value, space);
        continue;
      }
      if (maximum > 255) text += static_cast<char>(value >> 8);
      text += static_cast<char>(value);
    }
    return {text.begin(), text.end()};
  }
};

TEST(Pnm, RandomMaximaFillTheRange) {
  std::mt19937 random(static_cast<uint32_t>(test::run_seed()));
  const auto below = [&](int end) { return static_cast<int>(random() % static_cast<uint32_t>(end)); };
  const int edges[] = {1, 2, 15, 100, 254, 255, 256, 257, 1023, 4095, 16383, 65534, 65535};
  const std::string spaces[] = {"\n", " ", "\t\r\n", " # a remark 12\n", "\n#\r  "};
  for (int problem = 0; problem < 400; ++problem) {
    PnmFile file{.kind = "2356"[problem % 4], .width = 1 + below(9), .height = 1 + below(5)};
    file.maximum = problem < 52 ? edges[problem / 4] : problem % 3 == 0 ? 1 + below(255) : 1 + below(65535);
    file.space = spaces[below(5)];
    const int channels = file.kind == '3' || file.kind == '6' ? 3 : 1;
    for (int i = 0; i < file.width * file.height * channels; ++i)
      file.values.push_back(i < 2 ? i * file.maximum : below(file.maximum + 1));
    const cv::Mat image = decoded_image(file.bytes());
    ASSERT_EQ(image.size(), cv::Size(file.width, file.height));
    for (int i = 0; i < file.width * file.height * 3; ++i) {
      // The nearest: at most half a step away.
      const int64_t value = file.values[channels == 3 ? i : i / 3];
      ASSERT_LE(2 * std::abs(int64_t{image.data[i]} * file.maximum - 255 * value), file.maximum)
          << "P" << file.kind << ", maximum " << file.maximum << ", value " << value << ", read as "
          << int(image.data[i]) << "; OCTET_TEST_SEED=" << test::run_seed();
    }
  }
}

// What Pillow 12 gives, and what netpbm's `pnmdepth 255` does, too, but for halves, which Pillow rounds to even.
TEST(Pnm, HalvesAreRoundedAsPillowDoes) {
  const PnmFile halves{.kind = '6', .width = 2, .maximum = 510, .values = {1, 2, 3, 5, 509, 510}};
  EXPECT_EQ(decoded(halves.bytes()), (std::vector<int>{0, 1, 2, 2, 254, 255}));
  const PnmFile two{.kind = '3', .maximum = 2, .values = {0, 1, 2}};
  EXPECT_EQ(decoded(two.bytes()), (std::vector<int>{0, 128, 255}));
}

TEST(Pnm, ValuesAboveTheMaximumAreThatAndWarn) {
  for (const char kind : {'3', '6'}) {
    const PnmFile file{.kind = kind, .maximum = 100, .values = {50, 100, 200}};
    std::vector<std::string> warnings;
    EXPECT_EQ(decoded(file.bytes(), &warnings), (std::vector<int>{128, 255, 255}));
    EXPECT_EQ(warnings, (std::vector<std::string>{"a value of 200 is read as the file's maximum, 100"}));
  }
}

TEST(Pnm, TwelveBitsInSixteenAreNamed) {
  PnmFile file{.kind = '5', .width = 2, .maximum = 65535, .values = {4095, 0}};
  std::vector<std::string> warnings;
  EXPECT_EQ(decoded(file.bytes(), &warnings), (std::vector<int>{16, 16, 16, 0, 0, 0}));
  ASSERT_EQ(warnings.size(), 1u);
  expect_says(warnings[0], {"below 4096", "multiply them by 16"});
  warnings.clear();
  file.values[1] = 4096;
  decoded(file.bytes(), &warnings);
  EXPECT_TRUE(warnings.empty());
}

TEST(Pnm, DamageIsABadImage) {
  for (const char kind : {'2', '3', '5', '6'})
    for (const int maximum : {255, 1000}) {
      PnmFile file{.kind = kind, .width = 2, .height = 2, .maximum = maximum};
      file.values.assign(kind == '3' || kind == '6' ? 12 : 4, 7);
      file.values.pop_back();
      expect_says(reason_of(file.bytes(), ImageFault::damaged), {"ends too early"});
    }
  for (const int maximum : {0, 65536})
    expect_says(reason_of(PnmFile{.maximum = maximum, .values = {0, 0, 0, 0, 0, 0}}.bytes(), ImageFault::damaged),
                {"maximum"});
  const std::string words = "P2\n2 1\n9\n1 x";
  expect_says(reason_of({words.begin(), words.end()}, ImageFault::damaged), {"no number at byte 11"});
}

}  // namespace
}  // namespace octet
