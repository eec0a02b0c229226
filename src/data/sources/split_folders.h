// Which folders of data.root hold the images of training and those of evaluation.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace octet {

struct SplitFolders {
  std::filesystem::path train, test;  // empty: there is none
  std::vector<std::string> others;    // names of the folders beside them, sorted
  std::vector<std::string> empty;     // of them, those that would be `test`, but hold no image
};

// Folders are known by names such as train, Training, training_set and trainset; val, valid, validation and dev; test
// and testing. The folder of evaluation is val, or else test, or else one of another name, where validation comes
// before a test; one without images gives way to one with images. The case of letters plays no part. Names may have
// more words, if both folders have the same: seg_train and seg_test. A folder that holds images itself is a class of
// that name. A folder of another name than train, val and test counts beside one for the other split, or alone, or if
// it holds a folder of the name of one beside it, so that `valid` and `invalid` may be classes. A split whose only
// folder has its name again stands for that. UsageError: there is no folder `root`, it cannot be read, or several
// folders are the same split.
SplitFolders find_splits(const std::filesystem::path& root);

// Where no folder is one for training: `test` may have any name of a split for evaluation. UsageError: as
// find_splits().
SplitFolders find_test_folder(const std::filesystem::path& root);

// A name of a split. plain: without other words, as `Test` and `test_set`, but not `test_bench`.
struct SplitName {
  bool trains, plain;
};
// Empty: the name is not that of a split.
std::optional<SplitName> split_name(const std::string& folder);

// Names of the folders in a folder, without hidden ones, sorted. UsageError: it cannot be read.
std::vector<std::string> visible_folders(const std::filesystem::path& folder);

// Whether a file with the name of an image is in the folder or in a folder below it. What cannot be read holds none.
bool holds_images(const std::filesystem::path& folder);

// Whether the folder holds images, and no folders.
bool holds_images_alone(const std::filesystem::path& folder);

}  // namespace octet
