#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "kernels/base/durable_file.h"

namespace {

int interruptions = 0;  // how many of the next system calls below a signal interrupts
bool interrupted() {
  if (interruptions == 0) return false;
  --interruptions;
  errno = EINTR;
  return true;
}

}  // namespace

// In place of the C library's: as on a network file system, where signals interrupt them and writes can be short.
extern "C" ssize_t pwrite(int file, const void* data, size_t count, off_t offset) {
  return interrupted() ? -1 : syscall(SYS_pwrite64, file, data, std::min<size_t>(count, 5), offset);
}
extern "C" int fsync(int file) { return interrupted() ? -1 : static_cast<int>(syscall(SYS_fsync, file)); }
extern "C" int close(int file) {
  const auto result = static_cast<int>(syscall(SYS_close, file));
  return interrupted() ? -1 : result;
}

namespace octet::test {
namespace {

class DurableFileTest : public testing::Test {
 protected:
  DurableFileTest() { std::filesystem::remove(path_); }
  ~DurableFileTest() override { std::filesystem::remove(path_); }

  const std::string path_ = testing::TempDir() + say("durable-", getpid());
};

TEST_F(DurableFileTest, SignalsDoNotLoseAFile) {
  for (int count = 0; count < 12; ++count) {  // interrupts the writes alone, then fsync and close too
    interruptions = count;
    {
      DurableFile file(path_);
      file.write("0123456789");
      file.write("abcdef");
      file.write_at(2, std::as_bytes(std::span("##########", 10)));
      if (count > 6) interruptions = count - 6;
      file.sync();
      if (count > 6) interruptions = count - 6;
      file.commit();
    }
    interruptions = 0;
    EXPECT_EQ(read_if_there(path_), "01##########cdef") << count;
  }
}

TEST_F(DurableFileTest, WithoutCommitNothingChanges) {
  write_durably(path_, "old");
  { DurableFile(path_).write("new"); }
  EXPECT_EQ(read_if_there(path_), "old");
  EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp"));
}

TEST_F(DurableFileTest, RefusalsNameTheFile) {
  try {
    write_durably("/proc/no-such-directory/file", "");
    FAIL() << "no error";
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("/proc/no-such-directory/file.tmp"), std::string::npos) << error.what();
  }
  EXPECT_EQ(read_if_there(path_), "");
}

TEST_F(DurableFileTest, WhatIsBehindALinkStays) {
  write_durably(path_, "precious");
  const std::string written = path_ + "-written";
  std::filesystem::create_hard_link(path_, written + ".tmp");
  write_durably(written, "new");
  EXPECT_EQ(read_if_there(written), "new");
  EXPECT_EQ(read_if_there(path_), "precious");
  std::filesystem::remove(written);
}

TEST_F(DurableFileTest, PipesAndLinksStay) {
  const std::string temporary = path_ + ".tmp";
  for (const std::string& at : {path_, temporary}) {
    ASSERT_EQ(mkfifo(at.c_str(), 0600), 0);
    EXPECT_THROW(write_durably(path_, "new"), FileError) << at;
    EXPECT_TRUE(std::filesystem::is_fifo(at)) << at;
    std::filesystem::remove(at);
  }
  std::filesystem::create_symlink("/dev/null", path_);
  EXPECT_THROW(write_durably(path_, "new"), FileError);
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  std::filesystem::remove(path_);
  std::filesystem::create_symlink("nowhere", temporary);
  EXPECT_THROW(write_durably(path_, "new"), FileError);
  EXPECT_TRUE(std::filesystem::is_symlink(temporary));
  std::filesystem::remove(temporary);
}

TEST_F(DurableFileTest, PipesAndLargeFilesAreRefused) {
  const auto refusal = [&](int64_t most) -> std::string {
    try {
      read_if_there(path_, most);
      return "";
    } catch (const UsageError& error) {
      return error.what();
    }
  };
  write_durably(path_, "12345");
  EXPECT_EQ(refusal(5), "");
  EXPECT_NE(refusal(4).find("has more than the 4 bytes that"), std::string::npos) << refusal(4);
  std::filesystem::resize_file(path_, uintmax_t{1} << 40);  // sparse; to read it would take minutes and all memory
  EXPECT_NE(refusal(int64_t{1} << 38).find("has more than the "), std::string::npos);
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);  // without a writer: to open it would wait
  EXPECT_NE(refusal(5).find("is not a regular file"), std::string::npos) << refusal(5);
}

TEST_F(DurableFileTest, PathsAndDisksAreToldApart) {
  const auto of_disk = [](int error) { return is_of_disk({error, std::generic_category()}); };
  for (const int error : {ENOSPC, EDQUOT, EIO}) EXPECT_TRUE(of_disk(error)) << error;
  for (const int error : {0, ENOENT, EACCES, ENOTDIR, EROFS}) EXPECT_FALSE(of_disk(error)) << error;
  make_directories(path_ + "/a/b", "");
  make_directories(path_ + "/a/b", "");
  EXPECT_TRUE(std::filesystem::is_directory(path_ + "/a/b"));
  std::filesystem::remove_all(path_);
  write_durably(path_, "a file");
  try {
    make_directories(path_ + "/a", "name another");
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("cannot create '" + path_ + "/a': ")) << error.what();
  }
}

}  // namespace
}  // namespace octet::test
