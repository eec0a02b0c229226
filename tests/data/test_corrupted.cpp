// Thirty files of ten kinds among good ones: whichever way they are read, bad ones stop or are skipped, and memory
// stays bounded.
#include <sys/resource.h>

#include <algorithm>

#include "src/data/images/decode.h"
#include "src/data/images/image_files.h"
#include "src/data/sources/pack.h"
#include "tests/data/files.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

constexpr int each = 3, good = 8;

struct Kind {
  const char* name;
  bool readable;  // by octet
};
// Root may read everything, so that a file nobody may read is no bad one then.
const Kind kinds[] = {{"truncated.jpg", false},  {"empty.jpg", false},
                      {"png_named.jpg", true},   {"forged.jpg", false},
                      {"cmyk.jpg", true},        {"sixteen_bits.png", true},
                      {"gray.jpg", true},        {"gif_named.jpg", false},
                      {"directory.JPEG", false}, {"unreadable.jpg", geteuid() == 0}};

class Corrupted : public testing::Test {
 protected:
  Corrupted() {
    config_.data.name = "image_folder";
    config_.data.root = folder_.path().string();
    config_.data.batch = 4;
    config_.data.image_size = 32;
    config_.data.bad_images = "skip";
    config_.model.classes = 2;
    const auto jpeg = encoded(picture(200, 300), ".jpg");
    for (int i = 0; i < good; ++i) write_file(cats() / ("good" + std::to_string(i) + ".jpg"), jpeg);
    for (const char* split : {"train", "val"}) write_file(folder_.path() / split / "dog" / "a.jpg", jpeg);
    write_file(folder_.path() / "val" / "cat" / "a.jpg", jpeg);
    for (int i = 0; i < each; ++i) {
      const auto add = [&](int kind, const std::vector<uint8_t>& bytes) { write_file(file(kind, i), bytes); };
      add(0, start_of(jpeg, jpeg.size() * size_t(i + 1) / 4));
      add(1, {});
      add(2, encoded(picture(30 + i, 40), ".png"));
      add(3, forged(jpeg));
      add(4, encoded_cmyk(40, 40 + i, 200, 100, 50));
      add(5, encoded(cv::Mat(40 + i, 40, CV_16UC3, cv::Scalar(50 * 257, 100 * 257, 200 * 257)), ".png"));
      add(6, encoded(cv::Mat(40 + i, 40, CV_8UC1, cv::Scalar(77)), ".jpg"));
      add(7, {'G', 'I', 'F', '8', '9', 'a', 1, 0, 1, 0, uint8_t(i)});
      fs::create_directories(file(8, i));
      add(9, jpeg);
      fs::permissions(file(9, i), fs::perms::none);
    }
    for (const Kind& kind : kinds) bad_ += kind.readable ? 0 : each;
  }
  fs::path cats() const { return folder_.path() / "train" / "cat"; }
  fs::path file(int kind, int i) const { return cats() / (std::to_string(i) + kinds[kind].name); }

  TemporaryFolder folder_;
  Config config_;
  int64_t bad_ = 0;
};

TEST_F(Corrupted, EveryReaderSkipsOrStopsInBoundedMemory) {
  const auto peak = [] {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;  // MB
  };
  const long before = peak();
  const int64_t all = good + 10 * each + 1;

  const Datasets sets = open_datasets(config_);
  ASSERT_EQ(sets.train->size(), all);
  const auto loader = make_loader(*sets.train, true, config_.data.batch, 0, 1, 2, 1);
  loader->start(0);
  int64_t read = 0;
  for (int64_t step = 0; step < all / config_.data.batch; ++step) {
    const Batch& batch = loader->next();
    read += config_.data.batch - std::count(batch.targets.labels, batch.targets.labels + config_.data.batch, -1);
  }
  EXPECT_LE(sets.train->skipped(), bad_);
  EXPECT_EQ(read, all / config_.data.batch * config_.data.batch - sets.train->skipped());

  Config packed = config_;
  packed.data.name = "packed";
  packed.data.root = (folder_.path() / "packed").string();
  const PackReport report = pack_image_folder(config_, packed.data.root);
  EXPECT_EQ(report.skipped, bad_);
  const Datasets pack = open_datasets(packed);
  EXPECT_EQ(pack.train->size(), all - bad_);
  for (int64_t i = 0; i < pack.train->size(); ++i) pixels_of(*pack.train, i, true);

  // A picture of 60,000 x 60,000 would take 10 GB.
  EXPECT_LT(peak() - before, 256);
}

TEST_F(Corrupted, EachBadFileIsNamed) {
  config_.data.bad_images = "stop";
  const Datasets sets = open_datasets(config_);
  std::vector<uint8_t> pixels = room_for({32, 32});
  std::vector<std::string> messages;
  for (int64_t i = 0; i < sets.train->size(); ++i) {
    try {
      EXPECT_TRUE(sets.train->read(i, true, 1, 0, pixels.data()));
    } catch (const Error& error) {
      messages.push_back(error.what());
    }
  }
  EXPECT_EQ(int64_t(messages.size()), bad_);
  for (int kind = 0; kind < 10; ++kind)
    for (int i = 0; i < each; ++i) {
      const std::string name = "cat/" + file(kind, i).filename().string();
      const auto named = std::count_if(messages.begin(), messages.end(),
                                       [&](const std::string& text) { return text.find(name) != std::string::npos; });
      EXPECT_EQ(named, kinds[kind].readable ? 0 : 1) << name;
    }
}

}  // namespace
}  // namespace octet
