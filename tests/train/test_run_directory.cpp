// A run directory that is deleted in mid-run, as a whole or in part.
#include <gtest/gtest.h>

#include <filesystem>

#include "kernels/base/command_line.h"
#include "src/run/metrics.h"
#include "src/run/run_directory.h"
#include "tests/train/temporary_directory.h"

namespace octet {
namespace {

class DeletedDirectory : public ::testing::Test {
 protected:
  TemporaryDirectory parent;
  const std::string path = parent / "run";
  const Config config{};
};

TEST_F(DeletedDirectory, IsMadeAndLockedAgain) {
  RunDirectory directory(config, path, false);
  EXPECT_FALSE(directory.deleted());
  std::filesystem::remove_all(path);
  EXPECT_TRUE(directory.deleted());
  directory.make_again(config);
  EXPECT_FALSE(directory.deleted());
  EXPECT_TRUE(DirectoryLock::held(path));
  EXPECT_EQ(read_file(path + "/config.yaml"), "# " + command_line() + "\n" + to_yaml(config));
}

TEST_F(DeletedDirectory, IsLeftToAnotherTraining) {
  RunDirectory directory(config, path, false);
  std::filesystem::remove_all(path);
  const RunDirectory other(config, path, false);
  EXPECT_TRUE(directory.deleted());
  EXPECT_THROW(directory.make_again(config), InUseError);
  EXPECT_TRUE(directory.deleted());
  EXPECT_FALSE(std::filesystem::exists(path + "/config.yaml"));
}

TEST_F(DeletedDirectory, MayBeInTheWay) {
  RunDirectory directory(config, path, false);
  std::filesystem::remove_all(path);
  write_file(path, "a file");
  EXPECT_TRUE(directory.deleted());
  EXPECT_PART(refusal([&] { directory.make_again(config); }), "cannot create '" + path);
  std::filesystem::remove(path);
  directory.make_again(config);
  EXPECT_FALSE(directory.deleted());
}

TEST_F(DeletedDirectory, MetricsAreMissed) {
  for (const char* name : {"metrics.jsonl", "clips.jsonl", "histograms.jsonl", "events.out.tfevents.octet"}) {
    const std::string file = parent / name;
    const MetricsWriter writer(parent.path(), -1);
    EXPECT_EQ(writer.deleted_file(), "");
    std::filesystem::remove(file);
    EXPECT_EQ(writer.deleted_file(), file);
  }
  const MetricsWriter writer(parent.path(), -1);
  std::filesystem::copy_file(parent / "metrics.jsonl", parent / "edited");
  std::filesystem::rename(parent / "edited", parent / "metrics.jsonl");
  EXPECT_EQ(writer.deleted_file(), parent / "metrics.jsonl") << "an editor has replaced it";
}

}  // namespace
}  // namespace octet
