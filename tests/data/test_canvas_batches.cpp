// Batches of samples that have several shapes and objects.
#include <algorithm>
#include <map>
#include <numeric>

#include "src/data/batch_order.h"
#include "tests/data/support.h"

namespace octet {
namespace {

// Canvas c is (1, c + 1) pixels. Sample i has canvas i * i % canvases, and i % 4 objects whose boxes begin at i.
class Mixed : public Dataset {
 public:
  Mixed(int64_t size, int canvases) : size_(size), canvases_(canvases) {}
  int64_t size() const override { return size_; }
  int64_t classes() const override { return 4; }
  ImageShape shape() const override { return canvas_shape(0); }
  std::string describe() const override { return "mixed"; }
  int32_t label(int64_t) const override { return 0; }
  uint64_t fingerprint() const override { return 0; }
  bool read(int64_t, bool, uint64_t, int64_t, uint8_t*) const override { return false; }
  int canvases() const override { return canvases_; }
  ImageShape canvas_shape(int canvas) const override { return {1, canvas + 1, 3}; }
  int canvas(int64_t index) const override { return int(index * index % canvases_); }
  const Annotations* annotations() const override { return &annotations_; }
  bool read_with_truth(int64_t index, bool training, uint64_t seed, int64_t epoch, uint8_t* pixels,
                       Truth& truth) const override {
    if (index == bad) return false;
    for (int64_t i = 0; i <= canvas(index); ++i, pixels += pixel_channels) {
      pixels[0] = uint8_t(index), pixels[3] = 255;
      pixels[1] = training ? uint8_t(seed) : 0, pixels[2] = training ? uint8_t(epoch) : 0;
    }
    const auto count = uint32_t(index % 4);
    for (uint32_t i = 0; i < count; ++i) truth.objects.push_back({{float(index), 0, float(index) + 1, 1}, int32_t(i)});
    truth.images.push_back({.index = index, .content_width = canvas(index) + 1, .content_height = 1, .count = count});
    return true;
  }
  int64_t bad = -1;

 private:
  int64_t size_;
  int canvases_;
  Annotations annotations_;
};

// All that a batch says, and its objects image by image.
struct Copied {
  int canvas;
  int64_t step, epoch;
  std::vector<uint8_t> images;
  std::vector<int32_t> labels;
  std::vector<int64_t> indices;
  std::vector<std::vector<float>> objects;
  bool operator==(const Copied&) const = default;
};
Copied copied(const Dataset& data, const Batch& batch) {
  const ImageShape shape = data.canvas_shape(batch.canvas);
  Copied copy{batch.canvas,
              batch.step,
              batch.epoch,
              bytes_of(batch, shape.height * shape.width),
              {batch.targets.labels, batch.targets.labels + batch.count},
              {},
              {}};
  const Truth& truth = *batch.targets.truth;
  EXPECT_EQ(int64_t(truth.images.size()), batch.count);
  uint32_t next = 0;
  for (const Truth::Image& image : truth.images) {
    EXPECT_EQ(image.first, next);
    next += image.count;
    copy.indices.push_back(image.index);
    auto& objects = copy.objects.emplace_back();
    for (uint32_t i = 0; i < image.count; ++i) objects.push_back(truth.objects[image.first + i].box.x1);
  }
  EXPECT_EQ(truth.objects.size(), next);
  EXPECT_EQ(std::vector<int64_t>(batch.samples.begin(), batch.samples.end()), copy.indices) << "-1: padded";
  return copy;
}
std::vector<Copied> pass(const Dataset& data, bool training, int64_t batch, int rank, int size, int64_t workers,
                         int64_t start, int64_t count) {
  const auto loader = make_loader(data, training, batch, rank, size, workers, 5);
  loader->start(start);
  std::vector<Copied> batches;
  for (int64_t i = 0; i < count; ++i) batches.push_back(copied(data, loader->next()));
  return batches;
}

TEST(CanvasBatches, HoldOneCanvasAndFollowThePermutation) {
  const Mixed data(101, 3);
  const auto loader = make_loader(data, true, 6, 0, 1, 2, 5);
  std::vector<int64_t> of_canvas(3);
  for (int64_t i = 0; i < 101; ++i) ++of_canvas[data.canvas(i)];
  const int64_t per_epoch = of_canvas[0] / 6 + of_canvas[1] / 6 + of_canvas[2] / 6;
  EXPECT_EQ(loader->batches_per_epoch(), per_epoch);
  std::vector<std::vector<int64_t>> seen(2);
  for (const Copied& batch : pass(data, true, 6, 0, 1, 2, 0, 2 * per_epoch)) {
    EXPECT_EQ(batch.epoch, batch.step / per_epoch);
    for (size_t i = 0; i < 6; ++i) {
      const int64_t index = batch.indices[i];
      EXPECT_EQ(data.canvas(index), batch.canvas);
      const size_t at = i * 4 * size_t(batch.canvas + 1);
      EXPECT_EQ(batch.images[at], index);
      EXPECT_EQ(batch.images[at + 1], 5);
      EXPECT_EQ(batch.images[at + 2], batch.epoch);
      EXPECT_EQ(batch.objects[i], std::vector<float>(index % 4, float(index)));
      seen[batch.epoch].push_back(index);
    }
  }
  // Within a canvas the samples keep the permutation's order, and each comes once.
  for (int64_t epoch = 0; epoch < 2; ++epoch)
    for (int canvas = 0; canvas < 3; ++canvas) {
      std::vector<int64_t> expected, found;
      for (const uint32_t index : epoch_order(101, 5, epoch))
        if (data.canvas(index) == canvas) expected.push_back(index);
      expected.resize(of_canvas[canvas] / 6 * 6);
      for (const int64_t index : seen[epoch])
        if (data.canvas(index) == canvas) found.push_back(index);
      EXPECT_EQ(found, expected);
    }
  EXPECT_NE(seen[0], seen[1]);
}

TEST(CanvasBatches, OfOneCanvasAreThoseOfThePermutation) {
  const Mixed data(50, 1);
  const BatchOrder order = training_order(data, 8, 3, 2);
  std::vector<uint32_t> expected = epoch_order(50, 3, 2);
  expected.resize(48);
  EXPECT_EQ(order.samples, expected);
}

TEST(CanvasBatches, DoNotDependOnWorkersOrTheStart) {
  const Mixed data(101, 3);
  const auto all = pass(data, true, 6, 0, 1, 1, 0, 30);
  for (const int64_t workers : {2, 5}) EXPECT_EQ(pass(data, true, 6, 0, 1, workers, 0, 30), all);
  for (const int64_t start : {1, 7, 14, 15, 16, 27})
    EXPECT_EQ(pass(data, true, 6, 0, 1, 2, start, 3),
              std::vector<Copied>(all.begin() + start, all.begin() + start + 3));
}

TEST(CanvasBatches, AreSharedByRanks) {
  const Mixed data(101, 3);
  for (const bool training : {true, false}) {
    const auto whole = pass(data, training, 12, 0, 1, 2, 0, 6);
    for (const int size : {2, 3, 4}) {
      std::vector<std::vector<Copied>> parts;
      for (int rank = 0; rank < size; ++rank) parts.push_back(pass(data, training, 12, rank, size, 2, 0, 6));
      for (size_t step = 0; step < whole.size(); ++step) {
        Copied joined = parts[0][step];
        for (int rank = 1; rank < size; ++rank) {
          const Copied& part = parts[rank][step];
          joined.images.insert(joined.images.end(), part.images.begin(), part.images.end());
          joined.labels.insert(joined.labels.end(), part.labels.begin(), part.labels.end());
          joined.indices.insert(joined.indices.end(), part.indices.begin(), part.indices.end());
          joined.objects.insert(joined.objects.end(), part.objects.begin(), part.objects.end());
        }
        EXPECT_EQ(joined, whole[step]);
      }
    }
  }
}

TEST(CanvasBatches, OfAnEvaluationHoldEachImageOnce) {
  for (const int64_t samples : {1, 5, 23, 60})
    for (const int size : {1, 2, 4}) {
      const Mixed data(samples, 3);
      std::vector<int> seen(samples);
      for (int rank = 0; rank < size; ++rank) {
        const auto loader = make_loader(data, false, 8, rank, size, 2, 5);
        for (const Copied& batch : pass(data, false, 8, rank, size, 2, 0, loader->batches_per_epoch()))
          for (size_t i = 0; i < batch.indices.size(); ++i) {
            // Padding: another image of the canvas, without objects.
            const auto index = int64_t(batch.images[i * 4 * size_t(batch.canvas + 1)]);
            EXPECT_EQ(data.canvas(index), batch.canvas);
            const bool padding = batch.indices[i] < 0;
            EXPECT_EQ(batch.labels[i], padding ? -1 : 0);
            EXPECT_EQ(batch.objects[i].size(), padding ? 0 : size_t(index % 4));
            if (padding) continue;
            EXPECT_EQ(batch.indices[i], index);
            ++seen[index];
          }
      }
      EXPECT_EQ(seen, std::vector<int>(samples, 1)) << samples << " samples, " << size << " ranks";
    }
}

TEST(CanvasBatches, ABadImageCountsInNoLoss) {
  Mixed data(12, 1);
  data.bad = 7;
  const auto batches = pass(data, false, 12, 0, 1, 2, 0, 1);
  EXPECT_EQ(batches[0].indices[7], -1);
  EXPECT_EQ(batches[0].labels[7], -1);
  EXPECT_EQ(batches[0].images[7 * 4 + 3], 0);
  EXPECT_TRUE(batches[0].objects[7].empty());
  EXPECT_EQ(batches[0].indices[8], 8);
}

TEST(CanvasBatches, RefuseABatchThatNoCanvasFills) {
  const Mixed data(20, 3);
  expect_says(message_of<UsageError>([&] { make_loader(data, true, 16, 0, 1, 1, 1); }),
              {"data.batch is 16", "none of the 3 canvases", "lower data.batch"});
}

}  // namespace
}  // namespace octet
