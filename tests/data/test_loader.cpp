#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "src/data/loader.h"
#include "tests/data/support.h"

namespace octet {
namespace {

int64_t thread_clock() {  // microseconds of processor time
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

// Sample i is the four bytes (i, seed, epoch, 255) and label i % 7; reading may fail or dawdle.
class Numbers : public Dataset {
 public:
  explicit Numbers(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  int64_t classes() const override { return 7; }
  ImageShape shape() const override { return {1, 1, 3}; }
  std::string describe() const override { return "numbers"; }
  int32_t label(int64_t index) const override { return static_cast<int32_t>(index % 7); }
  uint64_t fingerprint() const override { return static_cast<uint64_t>(size_); }
  bool read(int64_t index, bool training, uint64_t seed, int64_t epoch, uint8_t* pixels) const override {
    std::this_thread::sleep_for(sleeps);
    for (const int64_t start = thread_clock(); thread_clock() - start < works.count();) continue;
    if (dawdle) std::this_thread::sleep_for(std::chrono::microseconds(index * 7919 % 50));
    REQUIRE(index != throws_at, "fix it", "picture-", index, ".jpg is bad");
    if (index == skips_at) return false;
    pixels[0] = static_cast<uint8_t>(index);
    pixels[1] = training ? static_cast<uint8_t>(seed) : 200;
    pixels[2] = static_cast<uint8_t>(epoch);
    pixels[3] = 255;
    return true;
  }
  bool dawdle = false;
  std::chrono::microseconds sleeps{0}, works{0};  // before each sample
  int64_t throws_at = -1, skips_at = -1;

 private:
  int64_t size_;
};

struct Copy {
  std::vector<uint8_t> images;
  std::vector<int32_t> labels;
  int64_t epoch, step, first;
  bool operator==(const Copy&) const = default;
};
Copy copy(const Batch& batch, int64_t pixels = 1) {
  return {bytes_of(batch, pixels),
          {batch.targets.labels, batch.targets.labels + batch.count},
          batch.epoch,
          batch.step,
          batch.first};
}

std::vector<Copy> take(Loader& loader, int64_t step, int64_t count, int64_t pixels = 1) {
  std::vector<Copy> batches;
  loader.start(step);
  for (int64_t i = 0; i < count; ++i) batches.push_back(copy(loader.next(), pixels));
  return batches;
}

TEST(Loader, TrainingFollowsThePermutationOfEachEpoch) {
  const Numbers data(23);
  const auto loader = make_loader(data, true, 5, 0, 1, 2, 11);
  EXPECT_EQ(loader->batches_per_epoch(), 4);
  const auto batches = take(*loader, 0, 12);
  for (int64_t step = 0; step < 12; ++step) {
    const Copy& batch = batches[step];
    const auto order = epoch_order(23, 11, step / 4);
    EXPECT_EQ(batch.epoch, step / 4);
    EXPECT_EQ(batch.step, step);
    for (int64_t i = 0; i < 5; ++i) {
      const int64_t index = order[step % 4 * 5 + i];
      EXPECT_EQ(batch.images[i * 4], index);
      EXPECT_EQ(batch.images[i * 4 + 1], 11);
      EXPECT_EQ(batch.images[i * 4 + 2], step / 4);
      EXPECT_EQ(batch.labels[i], index % 7);
    }
  }
}

TEST(Loader, AnyNumberOfWorkersGivesTheSameBatches) {
  Numbers data(100);
  const auto expected = take(*make_loader(data, true, 16, 0, 1, 1, 3), 0, 20);
  data.dawdle = true;
  for (int64_t workers : {2, 3, 8}) EXPECT_EQ(take(*make_loader(data, true, 16, 0, 1, workers, 3), 0, 20), expected);
}

TEST(Loader, ReadSecondsCountWorkAndNotSleep) {
  Numbers data(100);
  const auto spent = [&] {
    const auto loader = make_loader(data, true, 10, 0, 1, 2, 3);
    take(*loader, 0, 10);
    return loader->read_seconds();
  };
  data.sleeps = std::chrono::microseconds(500);
  EXPECT_LT(spent(), 100 * 500e-6);
  data.works = std::chrono::microseconds(500);
  EXPECT_GE(spent(), 100 * 500e-6);
}

TEST(Loader, RanksShareTheGlobalBatch) {
  Config config;
  config.data.samples = 256;
  config.data.batch = 24;
  const Datasets sets = open_datasets(config);
  for (bool training : {true, false}) {
    const auto whole = take(*make_loader(*sets.train, training, 24, 0, 1, 2, 3), 0, 11, 1024);
    for (int size : {2, 3, 4}) {
      std::vector<std::vector<Copy>> parts;
      for (int rank = 0; rank < size; ++rank)
        parts.push_back(take(*make_loader(*sets.train, training, 24, rank, size, 2, 3), 0, 11, 1024));
      for (size_t step = 0; step < whole.size(); ++step) {
        Copy joined = parts[0][step];
        for (int rank = 1; rank < size; ++rank) {
          const Copy& part = parts[rank][step];
          EXPECT_EQ(part.first, 24 / size * rank);
          joined.images.insert(joined.images.end(), part.images.begin(), part.images.end());
          joined.labels.insert(joined.labels.end(), part.labels.begin(), part.labels.end());
        }
        EXPECT_EQ(joined, whole[step]);
      }
    }
  }
}

TEST(Loader, StartsAtAnyStep) {
  Numbers data(53);
  data.dawdle = true;
  const auto loader = make_loader(data, true, 8, 0, 1, 3, 1);
  const auto all = take(*loader, 0, 40);
  for (int64_t step : {0, 1, 5, 6, 17, 30, 3}) {
    const auto later = take(*loader, step, 4);
    EXPECT_EQ(later, std::vector<Copy>(all.begin() + step, all.begin() + step + 4)) << "from step " << step;
  }
}

TEST(Loader, EvaluationCoversEachSampleOnce) {
  for (int64_t samples : {1, 2, 7, 13, 31, 61})
    for (int size = 1; size <= 4; ++size) {
      const Numbers data(samples);
      std::vector<int> seen(samples);
      for (int rank = 0; rank < size; ++rank) {
        const auto loader = make_loader(data, false, 2 * 3 * 4, rank, size, 2, 1);
        for (int pass = 0; pass < 2; ++pass) {
          loader->start(0);
          for (int64_t b = 0; b < loader->batches_per_epoch(); ++b) {
            const Batch& batch = loader->next();
            ASSERT_EQ(batch.count, 24 / size);
            const std::vector<uint8_t> bytes = bytes_of(batch, 1);
            for (int64_t i = 0; i < batch.count; ++i) {
              const int64_t index = b * 24 + batch.first + i;
              EXPECT_EQ(bytes[i * 4], index % samples);
              EXPECT_EQ(bytes[i * 4 + 1], 200);
              EXPECT_EQ(batch.targets.labels[i], index < samples ? index % 7 : -1);
              if (index < samples) ++seen[index];
            }
          }
          EXPECT_THROW(loader->next(), Error);
        }
      }
      EXPECT_EQ(seen, std::vector<int>(samples, 2)) << samples << " samples, " << size << " ranks";
    }
}

// Workers that have time would overwrite a batch that has ended.
TEST(Loader, TheNextBatchCanBeSeenBesideThisOne) {
  const Numbers data(60);
  const auto expected = take(*make_loader(data, false, 6, 0, 1, 2, 1), 0, 10);
  const auto loader = make_loader(data, false, 6, 0, 1, 2, 1);
  loader->start(0);
  for (size_t b = 0; b < 10; ++b) {
    const Batch& batch = loader->next();
    if (b < 9) {
      EXPECT_EQ(copy(loader->ahead(), 1), expected[b + 1]);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_EQ(copy(loader->ahead(), 1), expected[b + 1]);
    }
    EXPECT_EQ(copy(batch, 1), expected[b]);
  }
  EXPECT_THROW(loader->ahead(), Error);
}

TEST(Loader, PassesErrorsOn) {
  Numbers data(40);
  data.throws_at = epoch_order(40, 1, 0)[25];
  const auto loader = make_loader(data, true, 10, 0, 1, 2, 1);
  loader->start(0);
  loader->next();
  loader->next();
  const std::string name = "picture-" + std::to_string(data.throws_at) + ".jpg";
  expect_says(message_of<Error>([&] { loader->next(); }), {name.c_str()});
  loader->start(3);
  EXPECT_EQ(loader->next().step, 3);
}

TEST(Loader, GivesSkippedSamplesNoLabel) {
  Numbers data(10);
  data.skips_at = 4;
  const auto loader = make_loader(data, false, 10, 0, 1, 2, 1);
  loader->start(0);
  const Batch& batch = loader->next();
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(batch.targets.labels[i], i == 4 ? -1 : i % 7);
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(bytes_of(batch, 1)[i * 4 + 3], i == 4 ? 0 : 255);
}

TEST(Loader, EndsWhileWorkersRead) {
  Numbers data(4096);
  data.dawdle = true;
  for (int i = 0; i < 20; ++i) {
    const auto loader = make_loader(data, true, 1024, 0, 1, 3, 1);
    if (i % 4) loader->start(i);
    if (i % 4 == 3) loader->next();
  }
}

TEST(Loader, RefusesWhatCannotWork) {
  const Numbers data(10);
  expect_says(message_of<UsageError>([&] { make_loader(data, true, 10, 0, 3, 1, 1); }),
              {"10", "3 ranks", "multiple of 3"});
  expect_says(message_of<UsageError>([&] { make_loader(data, true, 11, 0, 1, 1, 1); }),
              {"batch is 11", "only 10 images"});
  expect_says(message_of<UsageError>([&] { make_loader(data, true, 10, 0, 1, 0, 1); }), {"data.workers is 0"});
  EXPECT_THROW(make_loader(data, true, 10, 0, 1, 1, 1)->next(), Error);
}

}  // namespace
}  // namespace octet
