// CutMix: torchvision's rectangles, and shares of labels that are those of the pixels.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/data/augment/mixing.h"
#include "src/data/images/pixel_bytes.h"
#include "tests/data/support.h"

namespace octet {
namespace {

// tests/golden/make_cutmix.py
TEST(CutMix, RectanglesAreTorchvisions) {
  const auto cases = nlohmann::json::parse(std::ifstream(OCTET_SOURCE_DIR "/tests/golden/cutmix.json"));
  EXPECT_GT(cases.size(), 50u);
  for (const auto& of : cases) {
    const int64_t height = of["height"], width = of["width"];
    const Cut cut = cut_around(of["x"], of["y"], of["share"], height, width);
    EXPECT_EQ(nlohmann::json::array({cut.left, cut.top, cut.right, cut.bottom}), of["left_top_right_bottom"]) << of;
    std::vector<uint8_t> pixels(static_cast<size_t>(height * width * pixel_channels)), others(pixels.size(), 1);
    EXPECT_EQ(cut_pixels(pixels.data(), others.data(), cut, height, width), of["stays"].get<float>()) << of;
  }
}

// Sample i has one colour, (i, i, i).
class Flat : public Dataset {
 public:
  int64_t size() const override { return 48; }
  int64_t classes() const override { return 48; }
  ImageShape shape() const override { return {20, 12, 3}; }
  std::string describe() const override { return "flat"; }
  int32_t label(int64_t index) const override { return static_cast<int32_t>(index); }
  uint64_t fingerprint() const override { return 1; }
  bool read(int64_t index, bool, uint64_t, int64_t, uint8_t* pixels) const override {
    if (index == bad) return false;
    const std::vector<uint8_t> colors(3 * 20 * 12, static_cast<uint8_t>(index));
    write_pixels(colors.data(), 20 * 12, pixels);
    return true;
  }
  int64_t bad = -1;
};

struct Read {
  std::vector<float> colors;  // of each pixel, red
  std::vector<int32_t> labels, others;
  std::vector<float> shares;
  bool operator==(const Read&) const = default;
  std::vector<float> of(size_t sample) const {
    return {colors.begin() + ptrdiff_t(sample) * 240, colors.begin() + ptrdiff_t(sample + 1) * 240};
  }
};

// An epoch of six batches of eight.
Read epoch_of(const Dataset& data, int ranks, int64_t workers, double mixup, double cutmix) {
  Read all;
  std::vector<std::unique_ptr<Loader>> loaders;
  for (int rank = 0; rank < ranks; ++rank) {
    loaders.push_back(make_loader(data, true, 8, rank, ranks, workers, 7,
                                  {.mixup = mixup, .cutmix = cutmix, .pixels = bytes_as_they_are}));
    loaders.back()->start(0);
  }
  for (int step = 0; step < 6; ++step)
    for (const auto& loader : loaders) {
      const Batch& batch = loader->next();
      const Targets& targets = batch.targets;
      for (int64_t i = 0; i < batch.count * 240; ++i)
        all.colors.push_back(mixup > 0
                                 ? static_cast<const float*>(batch.images)[3 * i]
                                 : static_cast<float>(static_cast<const uint8_t*>(batch.images)[pixel_channels * i]));
      all.labels.insert(all.labels.end(), targets.labels, targets.labels + batch.count);
      EXPECT_EQ(targets.other_labels != nullptr, mixup > 0 || cutmix > 0);
      if (targets.other_labels == nullptr) continue;
      all.others.insert(all.others.end(), targets.other_labels, targets.other_labels + batch.count);
      all.shares.insert(all.shares.end(), targets.shares, targets.shares + batch.count);
    }
  return all;
}

TEST(CutMix, SharesAreThoseOfThePixels) {
  const Flat data;
  const Read plain = epoch_of(data, 1, 1, 0, 0), read = epoch_of(data, 1, 1, 0, 1);
  EXPECT_EQ(read.labels, plain.labels);
  int cut = 0;
  for (size_t i = 0; i < 48; ++i) {
    EXPECT_EQ(read.others[i], read.labels[i / 8 * 8 + (i + 1) % 8]) << "the next sample of the batch";
    const std::vector<float> colors = read.of(i);
    const auto own = std::ranges::count(colors, float(read.labels[i])),
               others = std::ranges::count(colors, float(read.others[i]));
    EXPECT_EQ(own + others, 240);
    EXPECT_FLOAT_EQ(read.shares[i], float(own) / 240);
    cut += own > 0 && others > 0;
  }
  EXPECT_GT(cut, 30);
}

TEST(CutMix, IsTheSameForAnyRanksAndWorkers) {
  const Flat data;
  for (const double mixup : {0.0, 0.5}) {
    const Read one = epoch_of(data, 1, 1, mixup, 0.5);
    EXPECT_EQ(epoch_of(data, 1, 3, mixup, 0.5), one);
    const Read two = epoch_of(data, 2, 2, mixup, 0.5);  // a batch is its two parts in order
    EXPECT_EQ(two, one);
  }
}

TEST(CutMix, AndMixupShareTheSamples) {
  const Flat data;
  const Read mixed = epoch_of(data, 1, 1, 1, 0), cut = epoch_of(data, 1, 1, 0, 1), both = epoch_of(data, 1, 1, 1, 1);
  int of_cutmix = 0;
  for (size_t i = 0; i < 48; ++i) {
    const bool is_cut = both.of(i) == cut.of(i) && both.shares[i] == cut.shares[i];
    EXPECT_TRUE(is_cut || (both.of(i) == mixed.of(i) && both.shares[i] == mixed.shares[i])) << i;
    of_cutmix += is_cut;
  }
  EXPECT_NEAR(of_cutmix, 24, 14);  // four standard deviations
  EXPECT_EQ(both.others, cut.others);
}

TEST(CutMix, LeavesSamplesBesideBadImagesWhole) {
  Flat data;
  data.bad = 11;
  const Read read = epoch_of(data, 1, 2, 0, 1);
  const auto bad = static_cast<size_t>(std::ranges::find(read.labels, -1) - read.labels.begin());
  ASSERT_LT(bad, 48u);
  EXPECT_EQ(read.others[bad], -1);
  EXPECT_EQ(read.of(bad), std::vector<float>(240));
  const size_t before = bad / 8 * 8 + (bad + 7) % 8;
  EXPECT_EQ(read.others[before], read.labels[before]);
  EXPECT_EQ(read.shares[before], 1);
  EXPECT_EQ(std::ranges::count(read.of(before), float(read.labels[before])), 240);
}

}  // namespace
}  // namespace octet
