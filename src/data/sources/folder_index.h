// The files of a folder of images: <root>/train/<class>/*.jpg and <root>/val (or test)/<class>/*.jpg, or folders of
// other names for the same (split_folders.h). With data.holdout there is one folder of classes, <root>/train or <root>
// itself, and evaluation takes a part of each class. Folders of classes may have subfolders.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/config/config.h"
#include "src/data/augment/crops.h"

namespace octet {

struct FolderIndex {
  std::filesystem::path folder;
  std::vector<std::string> classes;                // sorted
  std::vector<std::pair<std::string, int>> files;  // path below folder, class; sorted
  std::map<std::string, int64_t> ignored;          // number of other files, by kind, as ImageFiles::ignored
  int64_t divided = 0;                             // of so many files, these were held out; 0: they are all
  std::vector<std::string> doubts = {};            // what was perhaps not meant, a sentence each
};
struct FolderSplits {
  FolderIndex train, test;
};
// Of data.root. Both have the classes of train; the test set may have no images of some. UsageError: the folders are
// missing, a class of train has no images, or test has a class that train lacks.
FolderSplits index_image_folder(const Config::Data&);
// With the classes of its own folder, some of which may have no images.
FolderIndex index_test_images(const Config::Data&);
// The names of the folders of classes that train. Empty: data.root holds images for evaluation alone, or is divided.
std::vector<std::string> training_class_names(const Config::Data&);
// Gives the files of a test set the labels of the same classes in `known`. Leaves out other folders that hold no
// image, with a doubt. UsageError: a class with images is not among them.
void number_as(const std::vector<std::string>& known, FolderIndex& test);
// Of one folder of folders of classes that a network knows, numbered as in `classes`; some may be absent. UsageError:
// there is no such folder, it holds no image, or a folder in it is of no such class.
FolderIndex index_labelled(const std::filesystem::path& folder, const std::vector<std::string>& classes);

// Warns of the doubts, and forgets them.
void say_doubts(FolderIndex&);

std::vector<std::string> absent_classes(const FolderIndex&);  // names of those without an image

// The images as a network reads them. Class -1: not known.
std::unique_ptr<Dataset> make_image_folder(FolderIndex, Crops, const Config::Data&);

// The files of `all`, divided. A file is held out for the test where a hash of its path below the folder is below
// `share`, so that it stays on its side when others are added or removed. Each class with two files or more has one on
// each side: those with the smallest and the largest hash.
FolderSplits divided(const FolderIndex& all, double share);

}  // namespace octet
