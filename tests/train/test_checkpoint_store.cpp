#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"
#include "src/run/checkpoint_store.h"
#include "src/weights/digest.h"
#include "tests/train/temporary_directory.h"

namespace octet {
namespace {

class Checkpoints : public ::testing::Test {
 protected:
  bool save(CheckpointStore& store, int64_t step) {
    values[0] = static_cast<float>(step);
    const std::vector<NamedTensor> tensors = {{"weight", {2, 2}, values}};
    try {
      store.save(step, tensors, {{"epoch", "3"}});
    } catch (const FileError& error) {
      reason = error.what();
      return false;
    }
    return true;
  }
  std::string file(int64_t step) const {
    std::string digits = std::to_string(step);
    return directory / "checkpoints/step-" + std::string(8 - digits.size(), '0') + digits + ".safetensors";
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory / "checkpoints"))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  TemporaryDirectory directory;
  std::vector<float> values = {0, 1, 2, 3};
  std::string reason;
};

TEST_F(Checkpoints, SavesAndFindsTheNewest) {
  CheckpointStore store(directory.path(), 3);
  EXPECT_FALSE(store.newest_valid().file.has_value());
  EXPECT_TRUE(store.newest_valid().refused.empty());
  ASSERT_TRUE(save(store, 7));
  ASSERT_TRUE(save(store, 1234));
  EXPECT_EQ(read_file(directory / "checkpoints/latest"), "step-00001234.safetensors\n");
  const auto found = CheckpointStore(directory.path(), 3).newest_valid();
  ASSERT_TRUE(found.file.has_value());
  EXPECT_EQ(found.step, 1234);
  EXPECT_EQ(found.path, file(1234));
  EXPECT_EQ(found.file->floats("weight")[0], 1234);
  EXPECT_EQ(found.file->metadata().at("epoch"), "3");
  EXPECT_TRUE(found.refused.empty());
}

TEST_F(Checkpoints, KeepsTheNewestFew) {
  CheckpointStore store(directory.path(), 2);
  for (const int64_t step : {10, 20, 30, 40}) ASSERT_TRUE(save(store, step));
  EXPECT_EQ(files(), (std::vector<std::string>{"latest", "step-00000030.safetensors", "step-00000040.safetensors"}));
}

TEST_F(Checkpoints, ACourseLeftBehindGoesFirst) {
  CheckpointStore store(directory.path(), 2);
  for (const int64_t step : {10, 90}) ASSERT_TRUE(save(store, step));
  ASSERT_TRUE(save(store, 20));  // resumed at 10
  EXPECT_EQ(files(), (std::vector<std::string>{"latest", "step-00000010.safetensors", "step-00000020.safetensors"}));
  EXPECT_EQ(store.newest_valid().step, 20);
}

TEST_F(Checkpoints, FallsBackToTheNewestValidOne) {
  CheckpointStore store(directory.path(), 3);
  for (const int64_t step : {10, 20, 30}) ASSERT_TRUE(save(store, step));
  write_file(file(30), read_file(file(30)).substr(0, 100));
  auto found = store.newest_valid();
  EXPECT_EQ(found.step, 20);
  ASSERT_EQ(found.refused.size(), 1u);
  EXPECT_PART(found.refused[0], "step-00000030.safetensors'");

  std::filesystem::rename(file(20), file(40));  // a file under another's name
  found = store.newest_valid();
  EXPECT_EQ(found.step, 10);
  ASSERT_EQ(found.refused.size(), 2u);
  EXPECT_PART(found.refused[0], "step-00000030.safetensors'");  // latest goes first
  EXPECT_PART(found.refused[1], "is of step 20");

  std::filesystem::remove(file(10));
  found = store.newest_valid();
  EXPECT_FALSE(found.file.has_value());
  EXPECT_EQ(found.refused.size(), 2u);
}

TEST_F(Checkpoints, LatestIsNoPath) {
  CheckpointStore store(directory.path(), 3);
  ASSERT_TRUE(save(store, 10));
  for (const std::string text :
       {"", "../../etc/passwd\n", "step-99999999.safetensors\n", "step-10.safetensors", "\xff"}) {
    write_file(directory / "checkpoints/latest", text);
    const auto found = store.newest_valid();
    EXPECT_EQ(found.step, 10);
    ASSERT_EQ(found.refused.size(), 1u) << text;
    EXPECT_PART(found.refused[0], "latest' does not name a checkpoint");
  }
}

TEST_F(Checkpoints, EveryFlippedBitIsFound) {
  CheckpointStore store(directory.path(), 3);
  ASSERT_TRUE(save(store, 10));
  const std::string bytes = read_file(file(10));
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    write_file(file(10), flipped);
    EXPECT_FALSE(store.newest_valid().file.has_value()) << "bit " << bit;
  }
  write_file(file(10), bytes);
  EXPECT_TRUE(store.newest_valid().file.has_value());
}

TEST_F(Checkpoints, AFullDiskKeepsTheLastGoodOne) {
  CheckpointStore store(directory.path(), 1);
  ASSERT_TRUE(save(store, 10));
  const auto size = std::filesystem::file_size(file(10));
  const auto before = files();
  rlimit whole{};
  getrlimit(RLIMIT_FSIZE, &whole);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  for (rlim_t limit = 0; limit < size; limit += 13) {  // wherever in the file the space ends
    const rlimit tight{limit, whole.rlim_max};
    setrlimit(RLIMIT_FSIZE, &tight);
    const bool saved = save(store, 20);
    setrlimit(RLIMIT_FSIZE, &whole);
    ASSERT_FALSE(saved) << limit;
    EXPECT_PART(reason, "step-00000020.safetensors.tmp': write: File too large");
    EXPECT_EQ(files(), before);
    EXPECT_EQ(store.newest_valid().step, 10);
  }
  signal(SIGXFSZ, handler);
  EXPECT_TRUE(save(store, 20));
  EXPECT_EQ(store.newest_valid().step, 20);
}

TEST_F(Checkpoints, InterruptedSavesAreCleared) {
  std::filesystem::create_directories(directory / "checkpoints");
  write_file(directory / "checkpoints/step-00000010.safetensors.tmp", "half");
  CheckpointStore store(directory.path(), 1);
  EXPECT_TRUE(files().empty());
}

TEST_F(Checkpoints, RefusesADirectoryThatCannotBe) {
  write_file(directory / "file", "");
  EXPECT_PART(refusal([&] { CheckpointStore(directory / "file", 1); }), "file/checkpoints'");
  EXPECT_PART(refusal([&] { CheckpointStore(directory.path(), 0); }), "checkpoints to keep: 0");
}

}  // namespace
}  // namespace octet
