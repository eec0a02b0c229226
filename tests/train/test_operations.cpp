// What keeps a run going, and what tells operators about it.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <functional>

#include "kernels/base/durable_file.h"
#include "src/run/checkpoint_store.h"
#include "src/run/final_write.h"
#include "src/run/line_file.h"
#include "src/run/prometheus.h"
#include "src/train/straggler.h"
#include "tests/train/temporary_directory.h"

namespace octet {
namespace {

TEST(LineFile, KeepsNoPartOfALine) {
  const TemporaryDirectory directory;
  const std::string path = std::filesystem::path(directory.path()) / "lines";
  LineFile file(path);
  EXPECT_TRUE(file.append("first"));
  rlimit whole{};
  getrlimit(RLIMIT_FSIZE, &whole);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{10, whole.rlim_max};
  setrlimit(RLIMIT_FSIZE, &tight);
  EXPECT_FALSE(file.append("a line that does not fit"));
  setrlimit(RLIMIT_FSIZE, &whole);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read_if_there(path), "first\n");
  EXPECT_TRUE(file.append("second"));
  EXPECT_EQ(read_if_there(path), "first\nsecond\n");
  EXPECT_TRUE(LineFile(path).append("third"));
  EXPECT_EQ(read_if_there(path), "first\nsecond\nthird\n");
}

TEST(CheckpointStore, MakesItsFolderAgain) {
  const TemporaryDirectory directory;
  CheckpointStore store(directory.path(), 2);
  EXPECT_FALSE(CheckpointStore::newest_of(directory.path()));
  std::filesystem::remove_all(std::filesystem::path(directory.path()) / "checkpoints");
  store.save(7, {}, {});
  const auto newest = CheckpointStore::newest_of(directory.path());
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->step, 7);
  EXPECT_NEAR(newest->written, seconds_since_1970(), 60);
}

FileError refused_write() { return {__FILE__, __LINE__, "the disk is full", "free it"}; }

TEST(PatientWrite, TriesAgainUntilItSucceeds) {
  Heart heart(0, "h0");
  int tries = 0;
  write_patiently(
      [&] {
        if (++tries < 3) throw refused_write();
      },
      60, [] { return false; }, heart);
  EXPECT_EQ(tries, 3);
  EXPECT_EQ(heart.own().last.activity, "saving");
}

TEST(PatientWrite, GivesUpInTimeOrWhenAsked) {
  Heart heart(0, "h0");
  const auto fails = [] { throw refused_write(); };
  EXPECT_THROW(write_patiently(
                   fails, 0.1, [] { return false; }, heart),
               FileError);
  EXPECT_THROW(write_patiently(
                   fails, 1e6, [] { return true; }, heart),
               FileError);
}

Heartbeat rank_that_takes(int rank, double reading, double forward) {
  Heartbeat beat;
  beat.rank = rank;
  beat.host = "h" + std::to_string(rank);
  beat.parts = {reading, forward, forward, 0.01};
  return beat;
}

TEST(Straggler, TakesTwiceTheMedianOfTheOthers) {
  EXPECT_FALSE(slowest({rank_that_takes(0, 0.01, 0.1)}));
  EXPECT_FALSE(slowest({rank_that_takes(0, 0.01, 0.1), rank_that_takes(1, 0.01, 0.19)}));
  const auto slow =
      slowest({rank_that_takes(0, 0.01, 0.1), rank_that_takes(1, 0.9, 0.1), rank_that_takes(2, 0.01, 0.1)});
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->rank, 1);
  EXPECT_NE(slow->sentence.find("rank 1 on h1 is slow"), std::string::npos) << slow->sentence;
  EXPECT_NE(slow->sentence.find("most of it in 'reading data' (0.9 s)"), std::string::npos) << slow->sentence;
}

const std::vector<Heartbeat> even_ranks = {rank_that_takes(0, 0, 0.1), rank_that_takes(1, 0, 0.1)};
const std::vector<Heartbeat> slow_ranks = {rank_that_takes(0, 0, 0.1), rank_that_takes(1, 0, 0.5)};

// What the watch says in two minutes of a look each second.
std::vector<std::string> said(const std::function<bool(int second)>& is_slow) {
  StragglerWatch watch;
  std::vector<std::string> all;
  for (int second = 0; second <= 120; ++second)
    if (const auto sentence = watch.look(second, is_slow(second) ? slow_ranks : even_ranks)) all.push_back(*sentence);
  return all;
}

TEST(Straggler, IsNamedOnceAfterAMinute) {
  StragglerWatch watch;
  EXPECT_FALSE(watch.look(0, slow_ranks));
  EXPECT_FALSE(watch.look(59, slow_ranks));
  EXPECT_TRUE(watch.look(60, slow_ranks));
  for (const double now : {61, 120, 122, 300}) EXPECT_FALSE(watch.look(now, slow_ranks)) << now;
}

TEST(Straggler, IsNamedIfItIsSlowNowAndThen) {
  const auto sentences = said([](int second) { return second % 2 == 1; });
  ASSERT_EQ(sentences.size(), 1u);
  // 30 of the 61 looks of a minute: 1.01 s, the others 0.21 s.
  EXPECT_PART(sentences[0], "rank 1 on h1 is slow: 0.603 s of a step are its own, 2.9 times the median");
  EXPECT_PART(sentences[0], "'forward' (0.297 s)");
}

TEST(Straggler, IsNotNamedIfItIsSlowForAFewLooks) {
  EXPECT_TRUE(said([](int second) { return second % 60 > 50; }).empty());
  EXPECT_TRUE(said([](int second) { return second == 60; }).empty())
      << "the last look of a minute counts as the others";
}

TEST(Straggler, RanksWithoutAStepDoNotCount) {
  StragglerWatch watch;
  const Heartbeat fast = rank_that_takes(0, 0, 0.1);
  Heartbeat none;
  none.rank = 1;
  EXPECT_FALSE(watch.look(0, {none}));
  EXPECT_FALSE(watch.look(60, {fast, none}));  // the minute begins
  EXPECT_FALSE(watch.look(119, {fast, none}));
  EXPECT_TRUE(watch.look(120, {fast, slow_ranks[1]})) << "the looks before its first step lower no mean";
}

TEST(Prometheus, TextHasAGaugeForEachFigure) {
  const TemporaryDirectory directory;
  const std::string path = std::filesystem::path(directory.path()) / "octet.prom";
  const LatestFigures latest{
      "runs/\"a\"", 42, 100, 640.5, 0, {{"loss", 1.5}, {"top1", NAN}}, {rank_that_takes(0, 0, 0.1)}};
  ASSERT_TRUE(write_prometheus(path, latest));
  const std::string text = read_if_there(path);
  for (const char* line :
       {"# TYPE octet_step gauge\noctet_step{run=\"runs/\\\"a\\\"\"} 42\n",
        "octet_figure{run=\"runs/\\\"a\\\"\",name=\"loss\"} 1.5\n", "name=\"top1\"} NaN\n", "rank=\"0\",host=\"h0\"}"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  EXPECT_FALSE(write_prometheus("/nowhere/octet.prom", latest));
}

TEST(Prometheus, FilesOfOthersAndLinksStay) {
  namespace fs = std::filesystem;
  const TemporaryDirectory directory;
  const fs::path folder = directory.path(), other = folder / "notes", link = folder / "link.prom",
                 mine = folder / "octet.prom";
  write_durably(other, "my notes\n");
  EXPECT_FALSE(write_prometheus(other, {}));
  fs::create_symlink(other, link);
  EXPECT_FALSE(write_prometheus(link, {}));
  EXPECT_TRUE(fs::is_symlink(link));
  ASSERT_TRUE(write_prometheus(mine, {}));
  fs::create_symlink(other, mine.string() + ".tmp");
  EXPECT_TRUE(write_prometheus(mine, {.run = "later", .scalars = {}, .ranks = {}}));
  EXPECT_NE(read_if_there(mine).find("later"), std::string::npos);
  EXPECT_EQ(read_if_there(other), "my notes\n");
}

}  // namespace
}  // namespace octet
