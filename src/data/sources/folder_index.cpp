#include "src/data/sources/folder_index.h"

#include <algorithm>
#include <future>
#include <iterator>

#include "kernels/base/error.h"
#include "src/data/fingerprint.h"
#include "src/data/images/image_files.h"
#include "src/data/images/image_format.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

constexpr const char* layout =
    "data.root must hold train/<class>/*.jpg and val/<class>/*.jpg, readable by you; of one folder of classes, "
    "data.holdout: 0.1 keeps a tenth for evaluation";
constexpr size_t listings = 16;  // at the same time: on a network file system each waits for answers

ImageFiles list_class(const fs::path& folder) {
  ImageFiles files = find_image_files(folder);
  REQUIRE(!files.names.empty(), "put images into the folder, or remove it", folder.string(),
          ": the folder of a class holds no ", image_endings(), " file; ", ignored_text(files.ignored));
  return files;
}

FolderIndex index_folder(const fs::path& folder) {
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
          of_class[label] = list_class(folder / index.classes[label]);
      }));
    for (auto& listing : running) listing.get();  // after an error, the destructors wait for the others
    for (size_t label = 0; label < of_class.size(); ++label) {
      for (const auto& [kind, count] : of_class[label].ignored) index.ignored[kind] += count;
      for (const std::string& name : of_class[label].names)
        index.files.emplace_back(index.classes[label] + "/" + name, static_cast<int>(label));
    }
  } catch (const fs::filesystem_error& error) {
    REQUIRE_USAGE(false, layout, error.what());
  }
  REQUIRE_USAGE(!index.classes.empty(), layout, folder.string(), ": no folders of classes here");
  return index;
}

}  // namespace

FolderSplits divided(const FolderIndex& all, double share) {
  constexpr uint64_t key = 0x686F6C646F7574;  // not the seed: runs with other seeds are judged on the same images
  const auto place = [&](size_t file) {       // in [0, 1)
    return static_cast<double>(fingerprint(key, all.files[file].first) >> 11) * 0x1p-53;
  };
  FolderSplits splits{{all.folder, all.classes, {}, all.ignored}, {all.folder, all.classes, {}, {}}};
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
  return splits;
}

FolderIndex index_test_images(const Config::Data& data) {
  if (data.holdout > 0) return index_image_folder(data).test;
  const fs::path root = data.root;
  const bool val = fs::is_directory(root / "val");
  REQUIRE_USAGE(val || fs::is_directory(root / "test"), layout, data.root, ": there is no folder val or test");
  return index_folder(root / (val ? "val" : "test"));
}

FolderSplits index_image_folder(const Config::Data& data) {
  const fs::path root = data.root;
  if (data.holdout > 0) {
    for (const char* name : {"val", "test"})
      REQUIRE_USAGE(!fs::is_directory(root / name), "leave data.holdout out, or move the folder away",
                    "data.holdout is ", data.holdout, ", but ", (root / name).string(), " is there for evaluation");
    return divided(index_folder(fs::is_directory(root / "train") ? root / "train" : root), data.holdout);
  }
  REQUIRE_USAGE(fs::is_directory(root / "train"), layout, data.root, ": there is no folder train");
  FolderIndex train = index_folder(root / "train"), test = index_test_images(data);
  if (train.classes != test.classes) {
    std::vector<std::string> differ;
    std::set_symmetric_difference(train.classes.begin(), train.classes.end(), test.classes.begin(), test.classes.end(),
                                  std::back_inserter(differ));
    REQUIRE(false, "give both the same folders of classes", train.folder.string(), " and ", test.folder.string(),
            " have different classes: '", differ.front(), "' is in one only");
  }
  return {std::move(train), std::move(test)};
}

}  // namespace octet
