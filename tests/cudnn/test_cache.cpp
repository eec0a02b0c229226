#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/cuda/plan_cache.h"
#include "tests/train/temporary_directory.h"

namespace octet {
namespace {

using cuda::PlanCache;
using Files = std::filesystem::directory_iterator;

const std::string kPlan = "{\"a\": 1}\n\n{}", kProblem = "forward 1x1x1x1";

TEST(PlanCache, FindsWhatItKept) {
  const TemporaryDirectory folder;
  const PlanCache cache(folder / "made/here", "cuDNN 9.19.0, H200");
  EXPECT_FALSE(cache.find(kProblem));
  cache.keep(kProblem, kPlan);
  cache.keep("another", "");
  EXPECT_EQ(cache.find(kProblem), kPlan);
  EXPECT_EQ(cache.find("another"), "");
  cache.keep(kProblem, "new");
  EXPECT_EQ(cache.find(kProblem), "new");
  EXPECT_EQ(std::distance(Files(folder / "made/here"), Files()), 2);  // nothing temporary stays
}

TEST(PlanCache, AnotherVersionOrDeviceIsAMiss) {
  const TemporaryDirectory folder;
  PlanCache(folder.path(), "cuDNN 9.19.0, H200").keep(kProblem, kPlan);
  EXPECT_FALSE(PlanCache(folder.path(), "cuDNN 9.20.0, H200").find(kProblem));
  // Even under its own name.
  const PlanCache other(folder.path(), "cuDNN 9.19.0, A100");
  const std::filesystem::path first = Files(folder.path())->path();
  other.keep(kProblem, kPlan);
  for (const auto& entry : Files(folder.path()))
    if (entry.path() != first)
      std::filesystem::copy_file(first, entry.path(), std::filesystem::copy_options::overwrite_existing);
  EXPECT_FALSE(other.find(kProblem));
}

TEST(PlanCache, DamagedFilesAreMissesAndWrittenAnew) {
  const TemporaryDirectory folder;
  const PlanCache cache(folder.path(), "cuDNN 9.19.0, H200");
  cache.keep(kProblem, kPlan);
  const std::string file = Files(folder.path())->path();
  const std::string whole = read_file(file);
  for (size_t size = 0; size < whole.size(); ++size) {
    write_file(file, whole.substr(0, size));
    EXPECT_FALSE(cache.find(kProblem)) << size << " bytes";
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] ^= 1;
    write_file(file, changed);
    EXPECT_FALSE(cache.find(kProblem)) << "byte " << i;
  }
  cache.keep(kProblem, kPlan);
  EXPECT_EQ(cache.find(kProblem), kPlan);
}

TEST(PlanCache, FoldersThatCannotBeWrittenKeepNothing) {
  const TemporaryDirectory folder;
  write_file(folder / "file", "no folder");
  for (const std::string& path : {folder / "file/below", std::string()}) {
    const PlanCache cache(path, "cuDNN 9.19.0, H200");
    cache.keep(kProblem, kPlan);
    EXPECT_FALSE(cache.find(kProblem));
  }
}

TEST(PlanCache, LiesWhereTheUserKeepsCaches) {
  const auto value = [](const char* name) { return std::string(std::getenv(name) ? std::getenv(name) : ""); };
  const std::string home = value("HOME"), cache = value("XDG_CACHE_HOME");
  setenv("HOME", "/home/me", 1);
  setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(PlanCache::default_folder(), "/cache/octet");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(PlanCache::default_folder(), "/home/me/.cache/octet");
  unsetenv("HOME");
  EXPECT_EQ(PlanCache::default_folder(), "");
  if (!home.empty()) setenv("HOME", home.c_str(), 1);
  if (!cache.empty()) setenv("XDG_CACHE_HOME", cache.c_str(), 1);
}

}  // namespace
}  // namespace octet
