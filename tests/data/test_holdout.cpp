// data.holdout: one folder of classes is divided for training and evaluation.
#include <set>

#include "src/data/sources/folder_index.h"
#include "src/data/sources/pack.h"
#include "tests/data/files.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

using Names = std::set<std::string>;
Names names_in(const FolderIndex& index) {
  Names names;
  for (const auto& [name, label] : index.files) names.insert(name);
  return names;
}

class Holdout : public testing::Test {
 protected:
  Holdout() {
    config_.data.name = "image_folder";
    config_.data.root = folder_.path().string();
    config_.data.holdout = 0.25;
    config_.data.batch = 1;
    config_.data.image_size = 32;
    config_.model.classes = 2;
    for (const char* name : {"cat", "dog"}) add(name, 0, 4);
  }
  void add(const std::string& name, int first, int end) const {
    for (int i = first; i < end; ++i)
      write_file(folder_.path() / name / (std::to_string(i) + ".png"), encoded(picture(32, 32), ".png"));
  }
  TemporaryFolder folder_;
  Config config_;
};

TEST_F(Holdout, DividesEachClass) {
  add("cat", 4, 1000);
  add("dog", 4, 100);
  const auto [train, test] = index_image_folder(config_.data);
  EXPECT_EQ(train.files.size() + test.files.size(), 1100u);
  EXPECT_EQ(train.classes, test.classes);
  const auto of_class = [&](int label) {
    return std::ranges::count(test.files, label, &std::pair<std::string, int>::second);
  };
  // Four standard deviations of a share of 0.25.
  EXPECT_NEAR(double(of_class(0)), 250, 55);
  EXPECT_NEAR(double(of_class(1)), 25, 18);
  Names both = names_in(train);
  both.merge(names_in(test));
  EXPECT_EQ(both.size(), 1100u);  // none is in both
  EXPECT_EQ(names_in(index_test_images(config_.data)), names_in(test));
}

TEST_F(Holdout, EveryFileStaysOnItsSide) {
  add("cat", 4, 40);
  const auto before = index_image_folder(config_.data);
  add("cat", 40, 200);
  fs::remove(folder_.path() / "cat" / "7.png");
  const Names test = names_in(index_image_folder(config_.data).test);
  for (const std::string& name : names_in(before.test)) EXPECT_TRUE(name == "cat/7.png" || test.contains(name)) << name;
  for (const std::string& name : names_in(before.train)) EXPECT_FALSE(test.contains(name)) << name;
}

TEST_F(Holdout, DependsOnNothingButNamesAndShare) {
  const Names test = names_in(index_image_folder(config_.data).test);
  config_.seed = 7;
  TemporaryFolder other;
  fs::rename(folder_.path() / "cat", other.path() / "cat");
  fs::create_directory(other.path() / "train");
  fs::rename(other.path() / "cat", other.path() / "train" / "cat");
  fs::rename(folder_.path() / "dog", other.path() / "train" / "dog");
  config_.data.root = other.path().string();  // and train/ is found
  EXPECT_EQ(names_in(index_image_folder(config_.data).test), test);
  config_.data.holdout = 0.9;
  const Names more = names_in(index_image_folder(config_.data).test);
  for (const std::string& name : test) EXPECT_TRUE(more.contains(name));
}

TEST_F(Holdout, SmallClassesAreOnBothSides) {
  add("eel", 0, 2);
  add("fox", 0, 1);
  for (const double share : {0.001, 0.9}) {
    config_.data.holdout = share;
    const auto [train, test] = index_image_folder(config_.data);
    const auto has = [&](const FolderIndex& index, int label) {
      return std::ranges::count(index.files, label, &std::pair<std::string, int>::second) > 0;
    };
    for (const int label : {0, 1, 2}) EXPECT_TRUE(has(train, label) && has(test, label)) << label << ", " << share;
    EXPECT_TRUE(has(train, 3));
  }
}

TEST_F(Holdout, IsReadPackedAndEvaluated) {
  const Datasets sets = open_datasets(config_);
  const int64_t train = sets.train->size(), test = sets.test->size();
  EXPECT_EQ(train + test, 8);
  EXPECT_EQ(open_datasets(config_, false).test->fingerprint(), sets.test->fingerprint());
  Config packed = config_;
  packed.data.name = "packed";
  packed.data.holdout = 0;
  packed.data.root = (folder_.path() / ".packed").string();
  pack_image_folder(config_, packed.data.root);
  EXPECT_EQ(open_datasets(packed).train->size(), train);
  EXPECT_EQ(open_datasets(packed).test->size(), test);
}

TEST_F(Holdout, IsNamedWhereItHelpsAndRefusedElsewhere) {
  const auto refused = [&] { return message_of<UsageError>([&] { open_datasets(config_); }); };
  fs::create_directory(folder_.path() / "val");
  expect_says(refused(), {"data.holdout is 0.25", "val is there for evaluation"});
  fs::remove(folder_.path() / "val");
  config_.data.holdout = 0;
  expect_says(refused(), {"there is no folder train", "data.holdout: 0.1"});
  fs::create_directory(folder_.path() / "train");
  fs::rename(folder_.path() / "cat", folder_.path() / "train" / "cat");
  expect_says(refused(), {"there is no folder val or test", "data.holdout: 0.1"});
  config_.data.name = "shapes";
  config_.data.holdout = 0.1;
  expect_says(refused(), {"only data.name: image_folder, coco, voc, yolo read it"});
}

}  // namespace
}  // namespace octet
