// Folders of splits, by their names.
#include "src/data/sources/folder_index.h"
#include "src/data/sources/split_folders.h"
#include "tests/data/files.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

class SplitNames : public testing::Test {
 protected:
  void add(const std::string& folder) const { write_file(folder_.path() / folder / "a.jpg", {1}); }
  void add_classes(const std::string& split) const {
    for (const char* name : {"/cat", "/dog"}) add(split + name);
  }
  // "train+val", as the names below the root; "-" for none.
  std::string found() const {
    const SplitFolders splits = find_splits(folder_.path());
    const auto name = [&](const fs::path& path) {
      return path.empty() ? "-" : path.lexically_relative(folder_.path()).string();
    };
    return name(splits.train) + "+" + name(splits.test);
  }
  std::string refusal() const {
    return message_of<UsageError>([&] { find_splits(folder_.path()); });
  }
  void clear() const {
    for (const auto& entry : fs::directory_iterator(folder_.path())) fs::remove_all(entry.path());
  }
  Config::Data data(double holdout = 0) const {
    Config::Data data;
    data.name = "image_folder";
    data.root = folder_.path().string();
    data.holdout = holdout;
    return data;
  }
  TemporaryFolder folder_;
};

TEST_F(SplitNames, AreKnownInTheirUsualForms) {
  for (const auto& [train, test] : {std::pair("train", "val"),
                                    {"train", "test"},
                                    {"Train", "Test"},
                                    {"TRAIN", "VAL"},
                                    {"train", "valid"},
                                    {"training", "validation"},
                                    {"training", "testing"},
                                    {"Training", "Testing"},
                                    {"training_set", "test_set"},
                                    {"train_set", "val_set"},
                                    {"trainset", "testset"},
                                    {"TrainingSet", "ValidationSet"},
                                    {"train-data", "test-data"},
                                    {"training data", "validation data"},
                                    {"train_images", "test"},
                                    {"seg_train", "seg_test"},
                                    {"train2017", "val2017"},
                                    {"ImagesTrain", "ImagesEval"},
                                    {"train", "dev"},
                                    {"pets-train", "pets-valid"}}) {
    clear();
    add_classes(train);
    add_classes(test);
    EXPECT_EQ(found(), std::string(train) + "+" + test);
    const FolderSplits splits = index_image_folder(data());
    EXPECT_EQ(splits.train.classes, (std::vector<std::string>{"cat", "dog"}));
    EXPECT_EQ(splits.test.folder, folder_.path() / test);
    EXPECT_EQ(index_test_images(data()).folder, folder_.path() / test);
    fs::remove_all(folder_.path() / train);
    EXPECT_EQ(index_test_images(data()).folder, folder_.path() / test);
  }
}

TEST_F(SplitNames, PlainNamesComeFirst) {
  for (const char* name : {"train", "Training", "train_images"}) add_classes(name);
  for (const char* name : {"testing", "dev", "test", "valid", "val"}) add_classes(name);
  EXPECT_EQ(found(), "train+val");
  EXPECT_EQ(find_splits(folder_.path()).others,
            (std::vector<std::string>{"Training", "dev", "test", "testing", "train_images", "valid"}));
  fs::remove_all(folder_.path() / "val");
  EXPECT_EQ(found(), "train+test");
  fs::remove_all(folder_.path() / "test");
  expect_says(refusal(), {"`dev` and `valid` seem to be the same split", "name one of them val"});
  fs::remove_all(folder_.path() / "dev");
  EXPECT_EQ(found(), "train+valid");
  fs::remove_all(folder_.path() / "train");
  expect_says(refusal(), {"`Training` and `train_images`"});
}

// Names of classes that resemble those of splits.
TEST_F(SplitNames, MayBeNamesOfClasses) {
  for (const char* name : {"bus", "car", "train"}) add(name);
  EXPECT_EQ(found(), "-+-");
  EXPECT_EQ(index_image_folder(data(0.5)).train.classes.size(), 3u);
  clear();
  for (const char* name : {"valid/camera1", "invalid/camera1"}) add(name);
  EXPECT_EQ(found(), "-+-");
  EXPECT_EQ(index_image_folder(data(0.5)).train.classes, (std::vector<std::string>{"invalid", "valid"}));
  clear();
  for (const char* name : {"train_station/a", "bus_station/a", "test_bench/a", "trained/a"}) add(name);
  EXPECT_EQ(found(), "-+-");
  clear();
  add_classes("train");
  add("test");  // images without labels
  EXPECT_EQ(found(), "train+-");
  EXPECT_EQ(index_image_folder(data(0.5)).train.classes, (std::vector<std::string>{"cat", "dog"}));
}

TEST_F(SplitNames, ThatStandAloneOrTwice) {
  add_classes("Training");
  EXPECT_EQ(found(), "Training+-");
  clear();
  add_classes("training_set/training_set");
  add_classes("test_set/test_set");
  EXPECT_EQ(found(), "training_set/training_set+test_set/test_set");
}

// What divides a folder must not divide its splits.
TEST_F(SplitNames, AreNotDivided) {
  add_classes("Train");
  add_classes("Test");
  expect_says(message_of<UsageError>([&] { index_image_folder(data(0.1)); }), {"data.holdout is 0.1", "Test is there"});
  clear();
  add_classes("train");  // read before octet knew the other name
  add_classes("valid");
  EXPECT_EQ(index_image_folder(data(0.1)).train.folder, folder_.path() / "train");
}

TEST_F(SplitNames, AreNamedWhereTheyAreMissing) {
  add_classes("first");
  add_classes("second");
  EXPECT_EQ(folders_in_each(folder_.path()), (std::vector<std::string>{"cat", "dog"}));
  add("third/dog");
  EXPECT_TRUE(folders_in_each(folder_.path()).empty());
  fs::remove_all(folder_.path() / "third");
  expect_says(message_of<UsageError>([&] { index_image_folder(data()); }),
              {"there is no folder train; it holds first, second", "data.holdout: 0.1"});
  clear();
  expect_says(message_of<UsageError>([&] { index_image_folder(data()); }), {"it holds no folders"});
  fs::remove_all(folder_.path());
  expect_says(message_of<UsageError>([&] { index_image_folder(data()); }), {"data.root is `", "no such file or folder"});
}

}  // namespace
}  // namespace octet
