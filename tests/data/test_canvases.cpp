#include "src/data/augment/canvases.h"
#include "tests/data/support.h"

namespace octet {
namespace {

Config::Data canvases(std::vector<int64_t> heights, std::vector<int64_t> widths, int64_t short_side,
                      int64_t long_side) {
  Config::Data data;
  data.canvas_heights = std::move(heights), data.canvas_widths = std::move(widths);
  data.short_side = short_side, data.long_side = long_side;
  return data;
}

TEST(Canvases, ResizeByTheShorterOrTheLongerSide) {
  const auto content = [](ImageSize image, int64_t short_side, int64_t long_side) {
    const Canvases all(canvases({2048}, {2048}, short_side, long_side));
    return all.content(0, image, short_side);
  };
  // The limiting side is exact, and the other one rounded down, as torchvision's GeneralizedRCNNTransform does it.
  EXPECT_EQ(content({480, 640}, 800, 1333), (ImageSize{800, 1066}));
  EXPECT_EQ(content({640, 480}, 800, 1333), (ImageSize{1066, 800}));
  EXPECT_EQ(content({300, 640}, 800, 1333), (ImageSize{624, 1333}));
  EXPECT_EQ(content({375, 500}, 600, 1000), (ImageSize{600, 800}));
  EXPECT_EQ(content({480, 640}, 288, 0), (ImageSize{288, 384}));
  EXPECT_EQ(content({427, 640}, 0, 0), (ImageSize{427, 640}));
  EXPECT_EQ(content({427, 640}, 0, 320), (ImageSize{213, 320}));
  EXPECT_EQ(content({1, 2000}, 600, 1000), (ImageSize{1, 1000}));  // a side does not vanish
}

TEST(Canvases, AnImageUsesTheSmallestThatHoldsIt) {
  const Canvases all(canvases({608, 1024, 608, 832}, {1024, 608, 832, 608}, 600, 1000));
  ASSERT_EQ(all.count(), 4);
  const auto chosen = [&](ImageSize image) {
    const ImageShape shape = all.shape(all.of(image));
    return ImageSize{shape.height, shape.width};
  };
  EXPECT_EQ(chosen({375, 500}), (ImageSize{608, 832}));
  EXPECT_EQ(chosen({500, 375}), (ImageSize{832, 608}));
  EXPECT_EQ(chosen({333, 500}), (ImageSize{608, 1024}));
  EXPECT_EQ(chosen({500, 300}), (ImageSize{1024, 608}));
  for (int64_t height = 40; height < 700; height += 13)
    for (int64_t width = 40; width < 700; width += 17) {
      const ImageSize image{height, width};
      const int canvas = all.of(image);
      EXPECT_FALSE(all.reduces(image));
      const ImageSize content = all.content(canvas, image, 600);
      EXPECT_LE(content.height, all.shape(canvas).height);
      EXPECT_LE(content.width, all.shape(canvas).width);
      EXPECT_TRUE(std::min(content.height, content.width) == 600 || std::max(content.height, content.width) == 1000);
    }
}

TEST(Canvases, ReduceAnImageThatNoneHolds) {
  const Canvases all(canvases({320, 480}, {480, 320}, 400, 0));
  EXPECT_TRUE(all.reduces({480, 640}));
  EXPECT_EQ(all.of({480, 640}), 0);
  EXPECT_EQ(all.of({640, 480}), 1);
  EXPECT_EQ(all.content(0, {480, 640}, 400), (ImageSize{320, 426}));
  EXPECT_EQ(all.content(1, {640, 480}, 400), (ImageSize{426, 320}));
  // Another size of a jittered image changes its scale, and not its canvas.
  EXPECT_EQ(all.content(0, {480, 640}, 240), (ImageSize{240, 320}));
}

TEST(Canvases, FollowFromTheSidesWhereNoneIsNamed) {
  const Canvases both(canvases({}, {}, 800, 1333));
  ASSERT_EQ(both.count(), 2);
  EXPECT_EQ(both.shape(0).height, 800);
  EXPECT_EQ(both.shape(0).width, 1344);
  EXPECT_EQ(both.shape(1).height, 1344);
  EXPECT_EQ(Canvases(canvases({}, {}, 300, 300)).count(), 1);
  EXPECT_EQ(Canvases(canvases({}, {}, 0, 0), 128).shape(0).width, 128);
}

TEST(Canvases, RefuseWhatANetworkCannotRead) {
  const auto refused = [](const Config::Data& data) {
    return message_of<UsageError>([&] { const Canvases all(data); });
  };
  expect_says(refused(canvases({240}, {320}, 240, 0)), {"240 x 320", "multiples of 32", "256 x 320"});
  expect_says(refused(canvases({256, 320}, {320}, 240, 0)), {"2 values", "canvas_widths 1"});
  expect_says(refused(canvases({}, {}, 600, 0)), {"not set", "data.long_side"});
  expect_says(refused(canvases({608}, {608}, 600, 400)), {"short_side is 600", "long_side 400"});
}

}  // namespace
}  // namespace octet
