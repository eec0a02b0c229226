// Which folders of data.root hold the images of training and those of evaluation.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace octet {

struct SplitFolders {
  std::filesystem::path train, test;  // empty: there is none
  std::vector<std::string> others;    // names of the folders beside them, sorted
};

// Folders are known by names such as train, Training, training_set and trainset; val, valid, validation and dev; test
// and testing. The folder of evaluation is val, or else test, or else one of another name, where validation comes
// before a test. Names may have more words, if both folders have the same: seg_train and seg_test. A folder that holds
// images itself is a class of that name. A folder for training of another name than `train` counts only beside one for
// evaluation or alone, and one for evaluation of another name than `val` and `test` beside one for training, so that
// `valid` and `invalid` may be classes. A split whose only folder has its name again stands for that. UsageError: there
// is no folder `root`, it cannot be read, or several folders are the same split.
SplitFolders find_splits(const std::filesystem::path& root);

// The folder that is a split for evaluation by its name, where no folder is one for training. Empty: there is none.
// UsageError: as find_splits().
std::filesystem::path find_test_folder(const std::filesystem::path& root);

// Names of two folders or more that each folder in `root` holds, and nothing but them, as splits of unknown names
// would. Empty: there are none. UsageError: a folder cannot be read.
std::vector<std::string> folders_in_each(const std::filesystem::path& root);

// Names of the folders in a folder, without hidden ones, sorted. UsageError: it cannot be read.
std::vector<std::string> visible_folders(const std::filesystem::path& folder);

}  // namespace octet
