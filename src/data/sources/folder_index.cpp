#include "src/data/sources/folder_index.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <future>

#include "kernels/base/error.h"
#include "src/config/keys.h"
#include "src/config/yaml.h"
#include "src/data/fingerprint.h"
#include "src/data/images/image_files.h"
#include "src/data/images/image_format.h"
#include "src/data/sources/folder_layout.h"
#include "src/data/sources/source.h"
#include "src/data/sources/split_folders.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

constexpr const char* layout =
    "sort the images into a folder for each class, which you may read: train/<class>/*.jpg and val/<class>/*.jpg, or "
    "<class>/*.jpg, of which data.holdout: 0.1 keeps a tenth for evaluation";
constexpr size_t listings = 16;  // at the same time: on a network file system each waits for answers

ImageFiles list_class(const fs::path& folder, bool training) {
  ImageFiles files = find_image_files(folder);
  REQUIRE_USAGE(!training || !files.names.empty(), "put images into the folder, or remove it", folder.string(),
                ": the folder of a class holds no ", image_endings(), " file; ", ignored_text(files.ignored));
  return files;
}

// training: every class has images. fix: for a folder that cannot be read or holds no folders.
FolderIndex index_folder(const fs::path& folder, bool training, const std::string& fix = layout) {
  FolderIndex index;
  index.folder = folder;
  try {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_directory() && name[0] != '.')
        index.classes.push_back(name);
      else
        ++index.ignored[name[0] == '.' ? "hidden" : "outside of a class"];
    }
    std::sort(index.classes.begin(), index.classes.end());
    std::vector<ImageFiles> of_class(index.classes.size());
    std::vector<std::future<void>> running;
    for (size_t first = 0; first < std::min(listings, of_class.size()); ++first)
      running.push_back(std::async(std::launch::async, [&, first] {
        for (size_t label = first; label < of_class.size(); label += listings)
          of_class[label] = list_class(folder / index.classes[label], training);
      }));
    for (auto& listing : running) listing.get();  // after an error, the destructors wait for the others
    for (size_t label = 0; label < of_class.size(); ++label) {
      for (const auto& [kind, count] : of_class[label].ignored) index.ignored[kind] += count;
      for (const std::string& name : of_class[label].names)
        index.files.emplace_back(index.classes[label] + "/" + name, static_cast<int>(label));
    }
  } catch (const fs::filesystem_error& error) {
    REQUIRE_USAGE(false, fix, error.what());
  }
  REQUIRE_USAGE(!index.classes.empty(), fix, folder.string(),
                ": no folders of classes here. Looked for: a folder of images for each class. Found: ",
                contents_of_folder(folder));
  return index;
}

}  // namespace

FolderSplits divided(const FolderIndex& all, double share) {
  constexpr uint64_t key = 0x686F6C646F7574;  // not the seed: runs with other seeds are judged on the same images
  const auto place = [&](size_t file) {       // in [0, 1)
    return static_cast<double>(fingerprint(key, all.files[file].first) >> 11) * 0x1p-53;
  };
  FolderSplits splits{{all.folder, all.classes, {}, all.ignored}, {all.folder, all.classes, {}, {}}};
  splits.train.doubts = all.doubts;
  for (size_t first = 0, end = 0; first < all.files.size(); first = end) {
    while (end < all.files.size() && all.files[end].second == all.files[first].second) ++end;
    size_t smallest = first, largest = first;
    for (size_t file = first; file < end; ++file) {
      if (place(file) < place(smallest)) smallest = file;
      if (place(file) > place(largest)) largest = file;
    }
    for (size_t file = first; file < end; ++file) {
      const bool held_out = file != largest && (file == smallest || place(file) < share);
      (held_out ? splits.test : splits.train).files.push_back(all.files[file]);
    }
  }
  splits.test.divided = static_cast<int64_t>(all.files.size());
  return splits;
}

namespace {

// "; it holds a, b and c": what may be a split of a name that octet does not know.
std::string contents_text(const SplitFolders& splits) {
  if (!splits.others.empty()) return say("; it holds ", some_of(splits.others));
  const std::string only = (splits.train.empty() ? splits.test : splits.train).filename().string();
  return only.empty() ? "; it holds no folders" : say("; it holds only ", shown(only));
}

void add(const std::vector<std::string>& doubts, FolderIndex& index) {
  index.doubts.insert(index.doubts.end(), doubts.begin(), doubts.end());
}

// What to do with data.root, which has a folder for evaluation and none for training.
std::string fix_without_training(const Config::Data& data, const SplitFolders& splits) {
  if (splits.test.empty() || splits.others.empty()) return layout;
  return say("move the folders of classes into ", (fs::path(data.root) / "train").string(),
             data.holdout > 0 ? " and leave data.holdout out" : "", ", or move ", splits.test.string(), " away");
}

FolderSplits index_with_holdout(const Config::Data& data) {
  const SplitFolders splits = find_splits(data.root);
  const std::string test = splits.test.filename().string();
  const bool alone = splits.train.empty();
  const bool ignores = splits.train == fs::path(data.root) / "train" && test != "val" && test != "test";
  REQUIRE_USAGE(splits.test.empty() || ignores,
                alone ? fix_without_training(data, splits) : say("leave data.holdout out, or move the folder away"),
                "data.holdout is ", data.holdout, ", but ", splits.test.string(), " is there for evaluation");
  alone ? require_classes_in(data.root) : require_classes_directly_in(splits.train);
  FolderIndex all = index_folder(alone ? fs::path(data.root) : splits.train, true);
  if (!splits.test.empty())
    all.doubts.push_back(say("data.holdout divides ", splits.train.string(), ", and ", splits.test.string(),
                             " is not read; without data.holdout it is judged"));
  add(doubts_about_classes(all, !alone), all);
  if (!alone) add(doubts_about_unread_folders(data.root, splits), all);
  return divided(all, data.holdout);
}

FolderIndex index_test_of(const Config::Data& data, const SplitFolders& splits) {
  REQUIRE_USAGE(!splits.test.empty(), layout, data.root, ": there is no folder val or test", contents_text(splits));
  const std::string fix = say("put images into ", (splits.test / "<class>").string(),
                              ", or remove the folder; then data.holdout: 0.1 keeps a tenth of train/ for evaluation");
  FolderIndex test = index_folder(splits.test, false, fix);
  add(doubts_about_empty_folders(data.root, splits), test);
  return test;
}

}  // namespace

void number_as(const std::vector<std::string>& known, FolderIndex& test) {
  const std::vector<std::string> absent = absent_classes(test);
  std::vector<std::string> unknown, without_images;
  std::vector<int> labels;  // by the labels of `test`
  for (const std::string& name : test.classes) {
    const auto found = std::ranges::find(known, name);
    labels.push_back(static_cast<int>(found - known.begin()));
    if (found == known.end()) (std::ranges::count(absent, name) > 0 ? without_images : unknown).push_back(name);
  }
  REQUIRE_USAGE(unknown.empty(), "put images of these classes into both, or move their folders away",
                test.folder.string(), " has classes that are not in the training set: ", some_of(unknown));
  if (!without_images.empty())
    test.doubts.push_back(say("folders in ", test.folder.string(),
                              " hold no images, and are not classes of training: ", some_of(without_images)));
  for (auto& [file, label] : test.files) label = labels[static_cast<size_t>(label)];
  test.classes = known;
}

void say_doubts(FolderIndex& index) {
  for (const std::string& doubt : index.doubts) spdlog::warn("{}", doubt);
  index.doubts.clear();
}

std::vector<std::string> absent_classes(const FolderIndex& index) {
  std::vector<bool> present(index.classes.size());
  for (const auto& [file, label] : index.files)
    if (label >= 0) present[static_cast<size_t>(label)] = true;
  std::vector<std::string> absent;
  for (size_t label = 0; label < present.size(); ++label)
    if (!present[label]) absent.push_back(index.classes[label]);
  return absent;
}

FolderIndex index_labelled(const fs::path& folder, const std::vector<std::string>& classes) {
  const std::string sorted =
      say("sort the images into ", (folder / "<class>").string(),
          ", with the names of the network's classes; octet predict takes images without classes");
  FolderIndex index = index_folder(folder, false, sorted);
  REQUIRE_USAGE(!index.files.empty(), sorted, folder.string(), ": the folders of classes hold no images");
  std::vector<std::string> unknown;
  for (const std::string& name : index.classes)
    if (std::ranges::count(classes, name) == 0 && holds_images(folder / name)) unknown.push_back(name);
  const fs::path test = unknown.empty() ? fs::path() : find_test_folder(folder).test;
  REQUIRE_USAGE(unknown.empty(),
                test.empty() ? say("name the folders as the classes are named, or move them away: ", some_of(classes))
                             : say("did you mean ", test.string(), "?"),
                folder.string(), " has folders that are no classes of the network: ",
                test.empty() ? with_nearest(unknown, classes) : some_of(unknown));
  number_as(classes, index);
  return index;
}

FolderIndex index_test_images(const Config::Data& data) {
  require_root(data);
  if (data.holdout > 0) return index_image_folder(data).test;
  const SplitFolders splits = find_splits(data.root);
  return index_test_of(data, splits.train.empty() ? find_test_folder(data.root) : splits);
}

FolderSplits index_image_folder(const Config::Data& data) {
  require_root(data);
  if (data.holdout > 0) return index_with_holdout(data);
  const SplitFolders splits = find_splits(data.root);
  if (splits.train.empty() && splits.test.empty()) require_classes_in(data.root);
  REQUIRE_USAGE(!splits.train.empty(), fix_without_training(data, splits), data.root, ": there is no folder train",
                contents_text(splits));
  require_classes_directly_in(splits.train);
  FolderIndex train = index_folder(splits.train, true), test = index_test_of(data, splits);
  add(doubts_about_classes(train, true), train);
  add(doubts_about_unread_folders(data.root, splits), train);
  number_as(train.classes, test);
  return {std::move(train), std::move(test)};
}

std::vector<std::string> training_class_names(const Config::Data& data) {
  if (data.holdout > 0) return {};
  const SplitFolders splits = find_splits(data.root);
  return splits.train.empty() ? std::vector<std::string>() : visible_folders(splits.train);
}

}  // namespace octet
