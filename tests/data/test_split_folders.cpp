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
  // Of training and evaluation, a line each.
  std::string doubts(double holdout = 0) const {
    const FolderSplits splits = index_image_folder(data(holdout));
    std::string lines;
    for (const FolderIndex* index : {&splits.train, &splits.test})
      for (const std::string& doubt : index->doubts) lines += doubt + "\n";
    return lines;
  }
  std::string index_refusal(double holdout = 0) const {
    return message_of<UsageError>([&] { index_image_folder(data(holdout)); });
  }
  std::string at(const std::string& name) const { return (folder_.path() / name).string(); }
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
  expect_says(doubts(0.5), {"each folder in ", "holds the same folders cat, dog"});
  add("third/dog");
  EXPECT_EQ(doubts(0.5), "");
  fs::remove_all(folder_.path() / "third");
  expect_says(message_of<UsageError>([&] { index_image_folder(data()); }),
              {"there is no folder train; it holds first, second", "data.holdout: 0.1"});
  clear();
  expect_says(message_of<UsageError>([&] { index_image_folder(data()); }), {"it holds no folders"});
  fs::remove_all(folder_.path());
  expect_says(message_of<UsageError>([&] { index_image_folder(data()); }),
              {"data.root is `", "no such file or folder"});
}

// Beside folders of classes, the name of a split in any case is that split, and one by what it holds is too.
TEST_F(SplitNames, BesideClassesAreNoClasses) {
  for (const char* name : {"val", "test", "Val", "Test", "TEST", "valid", "Validation", "testing", "test_set", "Dev"}) {
    clear();
    for (const char* folder : {"cat", "dog"}) add(folder);
    add_classes(name);
    EXPECT_EQ(found(), std::string("-+") + name);
    const std::string move = "move the folders of classes into " + at("train");
    expect_says(index_refusal(), {"there is no folder train; it holds cat, dog", move.c_str()});
    expect_says(index_refusal(0.1), {"is there for evaluation", move.c_str(), " and leave data.holdout out"});
    // As the advice says:
    fs::create_directory(folder_.path() / "train");
    for (const char* folder : {"cat", "dog"}) fs::rename(at(folder), at(std::string("train/") + folder));
    EXPECT_EQ(found(), std::string("train+") + name);
    EXPECT_EQ(doubts(), "");
  }
  clear();
  for (const char* folder : {"cat", "dog"}) add(folder);
  add_classes("Train");
  EXPECT_EQ(found(), "Train+-");
}

TEST_F(SplitNames, OfClassesAreUsableBelowTrain) {
  for (const char* name : {"train/cat", "train/Test/a", "train/valid", "train/train/b"}) add(name);
  EXPECT_EQ(found(), "train+-");
  EXPECT_EQ(index_image_folder(data(0.5)).train.classes, (std::vector<std::string>{"Test", "cat", "train", "valid"}));
  EXPECT_EQ(doubts(0.5), "");
}

TEST_F(SplitNames, OfClassesAreDoubted) {
  for (const char* name : {"bus", "train"}) add(name);
  EXPECT_EQ(doubts(0.5), "");
  clear();
  for (const char* name : {"bus", "Test", "valid/camera", "test_bench"}) add(name);
  EXPECT_EQ(index_image_folder(data(0.5)).train.classes.size(), 4u);
  const std::string move = " is read as a class. If it is for evaluation, move the other folders into " + at("train");
  EXPECT_EQ(doubts(0.5),
            at("Test") + move + ", and sort its images into folders of classes\n" + at("valid") + move + "\n");
  clear();
  for (const char* name : {"walking/a", "training/b"}) add(name);
  EXPECT_EQ(doubts(0.5), at("training") + " is read as a class. If it is for training, name it train\n");
  clear();
  for (const char* name : {"cat", "dog", "prueba/cat", "prueba/dog"}) add(name);
  expect_says(doubts(0.5), {"hold folders of the names of other classes: prueba. "});
  clear();
  for (const char* name : {"cat", "Cat ", "dog"}) add(name);
  expect_says(doubts(0.5), {"`Cat ` and `cat` in ", "are different classes"});
}

TEST_F(SplitNames, InsideOfClassesAreNotKeptApart) {
  for (const char* name : {"cat/train", "cat/val", "dog/train", "dog/val"}) add(name);
  EXPECT_EQ(index_image_folder(data(0.5)).train.classes, (std::vector<std::string>{"cat", "dog"}));
  expect_says(doubts(0.5), {"hold folders of splits, which are not kept apart: cat, dog. ", "train/<class>"});
  clear();
  for (const char* fold : {"fold1/", "fold2/"})
    for (const char* split : {"train", "val"}) add_classes(std::string(fold) + split);
  expect_says(doubts(0.5), {"not kept apart: fold1, fold2. ", "if they are data sets, name one of them"});
}

TEST_F(SplitNames, AreFoundBelowTheOnlyFolder) {
  for (const char* inner : {"data", "archive/dataset", "images"}) {
    clear();
    add_classes(std::string(inner) + "/train");
    add_classes(std::string(inner) + "/val");
    fs::create_directory(folder_.path() / "labels");
    write_file(folder_.path() / "__MACOSX" / "._a.jpg", {1});
    const std::string meant = "did you mean " + at(inner) + "?";
    for (const double holdout : {0.0, 0.5}) expect_says(index_refusal(holdout), {"only ", meant.c_str()});
  }
  clear();
  add_classes("data");  // classes without splits
  expect_says(index_refusal(0.5), {("only " + at("data") + " holds folders of images: cat, dog").c_str()});
  clear();
  for (const char* split : {"train/images", "val/images"}) add_classes(split);
  for (const double holdout : {0.0, 0.5}) {
    if (holdout > 0) fs::remove_all(folder_.path() / "val");
    expect_says(index_refusal(holdout), {"the only class is images, and holds the folders cat, dog",
                                         ("move them into " + at("train")).c_str()});
  }
  clear();
  add_classes("test");
  expect_says(index_refusal(), {"there is no folder train; it holds only test\n"});
  clear();
  add_classes("data/train");
  expect_says(index_refusal(0.5), {("did you mean " + at("data") + "?").c_str()});
}

TEST_F(SplitNames, WithoutFoldersOfClassesAreRefused) {
  for (const auto& [train, test] :
       {std::pair("train", "val"), {"Train", "Test"}, {"train", "test1"}, {"train_images", "test_images"}}) {
    clear();
    add(train);
    add(test);
    for (const double holdout : {0.0, 0.5})
      expect_says(index_refusal(holdout),
                  {say(train, " and ", test, " hold images, and no folders of classes").c_str(),
                   "sort the images into train/<class>", ("move them into " + at("train")).c_str()});
  }
  add("other");
  expect_says(index_refusal(0.5), {"train_images and test_images hold images"});
  clear();
  for (const char* name : {"train", "test1", "bus"}) add(name);
  EXPECT_EQ(index_image_folder(data(0.5)).train.classes.size(), 3u);
}

TEST_F(SplitNames, WithoutImagesGiveWay) {
  add_classes("train");
  add_classes("test");
  fs::create_directories(folder_.path() / "val" / "cat");
  EXPECT_EQ(found(), "train+test");
  EXPECT_EQ(doubts(), at("val") + " holds no image, so " + at("test") + " is read instead\n");
  EXPECT_EQ(index_test_images(data()).folder, folder_.path() / "test");
  fs::remove_all(folder_.path() / "train");
  EXPECT_EQ(index_test_images(data()).folder, folder_.path() / "test");
  add_classes("train");
  add("val/cat");
  EXPECT_EQ(found(), "train+val");
  fs::remove_all(folder_.path() / "val");
  fs::create_directories(folder_.path() / "val");
  fs::create_directory_symlink(folder_.path() / "train" / "cat", folder_.path() / "val" / "cat");
  EXPECT_EQ(found(), "train+val") << "links are followed";
  fs::remove_all(folder_.path() / "test");
  fs::remove_all(folder_.path() / "val");
  fs::create_directories(folder_.path() / "val");
  expect_says(index_refusal(), {"val: no folders of classes here", "or remove the folder; then data.holdout: 0.1"});
}

TEST_F(SplitNames, NameTheFoldersBesideThemThatAreNotRead) {
  for (const char* name : {"bus", "car", "train/steam", "train/diesel", "test"}) add(name);
  fs::create_directory(folder_.path() / "notes");
  EXPECT_EQ(doubts(0.5), "folders in " + folder_.path().string() + " hold images and are not read: bus, car, test. " +
                             at("train") + " is the folder of training; if they are classes, move them into it\n");
  clear();
  for (const char* split : {"train", "val", "test", "Training"}) add_classes(split);
  EXPECT_EQ(doubts(), "");
}

// Caches and the like are no classes.
TEST_F(SplitNames, MayHoldFoldersWithoutImages) {
  add_classes("train");
  add_classes("val");
  fs::create_directories(folder_.path() / "val" / "thumbs");
  write_file(folder_.path() / "val" / "__pycache__" / "a.pyc", {1});
  write_file(folder_.path() / "val" / ".ipynb_checkpoints" / "a.jpg", {1});
  const FolderSplits splits = index_image_folder(data());
  EXPECT_EQ(splits.test.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(splits.test.files.size(), 2u);
  expect_says(doubts(), {"val hold no images, and are not classes of training: __pycache__, thumbs"});
  add("val/thumbs");
  add("val/cat ");
  expect_says(index_refusal(), {"not in the training set: `cat `, thumbs"});
}

// `octet eval --images`
TEST_F(SplitNames, OfImagesToJudge) {
  const std::vector<std::string> known = {"cat", "dog", "eel"};
  const auto refused = [&] { return message_of<UsageError>([&] { index_labelled(folder_.path(), known); }); };
  fs::create_directory(folder_.path() / "cat");
  for (const char* what : {"the folders of classes hold no images", "/<class>", "octet predict"})
    expect_says(refused(), {what});
  add("cat");
  fs::create_directory(folder_.path() / "thumbs");
  EXPECT_EQ(index_labelled(folder_.path(), known).classes, known);
  add("fish");
  add("dogs");
  expect_says(refused(), {"no classes of the network: dogs (nearest: `dog`), fish\n", "move them away: cat, dog, eel"});
  clear();
  add_classes("train");
  add_classes("val");
  expect_says(refused(), {"no classes of the network: train, val", ("did you mean " + at("val") + "?").c_str()});
  clear();
  write_file(folder_.path() / "a.jpg", {1});
  expect_says(refused(), {"no folders of classes here", "Found: 1 .jpg\n", "sort the images into"});
  EXPECT_EQ(refused().find("data.root"), std::string::npos);
}

}  // namespace
}  // namespace octet
