#include "src/data/folder_index.h"

#include <algorithm>
#include <fstream>
#include <future>
#include <iterator>

#include "kernels/base/error.h"
#include "src/data/decode.h"
#include "src/data/fingerprint.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

constexpr const char* layout =
    "data.root must hold train/<class>/*.jpg and val/<class>/*.jpg, readable by you; of one folder of classes, "
    "data.holdout: 0.1 keeps a tenth for evaluation";
constexpr size_t listings = 16;  // at the same time: on a network file system each waits for answers

// Everything that is named like an image counts as one. A folder or a broken link with such a name is then a bad image
// that is reported, and not a silent gap.
struct ClassFiles {
  std::vector<std::string> names;  // <class>/<file>, sorted
  int64_t ignored = 0;
};
ClassFiles list_class(const fs::path& folder, const std::string& name) {
  ClassFiles files;
  for (const auto& entry : fs::directory_iterator(folder / name)) {
    if (names_an_image(entry.path()))
      files.names.push_back(name + "/" + entry.path().filename().string());
    else
      ++files.ignored;
  }
  REQUIRE(!files.names.empty(), "put images into the folder, or remove it", (folder / name).string(),
          ": the folder of a class holds no .jpg, .jpeg or .png file");
  std::sort(files.names.begin(), files.names.end());
  return files;
}

FolderIndex index_folder(const fs::path& folder) {
  FolderIndex index;
  index.folder = folder;
  try {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_directory() && name[0] != '.') index.classes.push_back(name);
    }
    std::sort(index.classes.begin(), index.classes.end());
    std::vector<ClassFiles> of_class(index.classes.size());
    std::vector<std::future<void>> running;
    for (size_t first = 0; first < std::min(listings, of_class.size()); ++first)
      running.push_back(std::async(std::launch::async, [&, first] {
        for (size_t label = first; label < of_class.size(); label += listings)
          of_class[label] = list_class(folder, index.classes[label]);
      }));
    for (auto& listing : running) listing.get();  // after an error, the destructors wait for the others
    for (size_t label = 0; label < of_class.size(); ++label) {
      index.ignored += of_class[label].ignored;
      for (auto& name : of_class[label].names) index.files.emplace_back(std::move(name), static_cast<int>(label));
    }
  } catch (const fs::filesystem_error& error) {
    REQUIRE_USAGE(false, layout, error.what());
  }
  REQUIRE_USAGE(!index.classes.empty(), layout, folder.string(), ": no folders of classes here");
  return index;
}

}  // namespace

bool names_an_image(const fs::path& file) {
  std::string extension = file.extension().string();
  for (char& c : extension) c = static_cast<char>(tolower(static_cast<unsigned char>(c)));
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

std::vector<uint8_t> read_image_file(const fs::path& file, int64_t most) {
  std::error_code failed;
  if (!fs::is_regular_file(file, failed)) throw BadImage(failed ? failed.message() : "not a regular file");
  const auto size = static_cast<int64_t>(fs::file_size(file, failed));
  if (failed) throw BadImage(failed.message());
  if (size > most) throw BadImage(say("a file of ", size, " bytes, more than data.max_pixels could fill"));
  std::vector<uint8_t> bytes(size);
  std::ifstream stream(file, std::ios::binary);
  stream.read(reinterpret_cast<char*>(bytes.data()), size);
  if (stream.gcount() != size) throw BadImage("cannot be read");
  return bytes;
}

FolderSplits divided(const FolderIndex& all, double share) {
  constexpr uint64_t key = 0x686F6C646F7574;  // not the seed: runs with other seeds are judged on the same images
  const auto place = [&](size_t file) {       // in [0, 1)
    return static_cast<double>(fingerprint(key, all.files[file].first) >> 11) * 0x1p-53;
  };
  FolderSplits splits{{all.folder, all.classes, {}, all.ignored}, {all.folder, all.classes, {}, 0}};
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
