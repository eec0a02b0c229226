// The files of a folder of images: <root>/train/<class>/*.jpg and <root>/val (or test)/<class>/*.jpg.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace octet {

struct FolderIndex {
  std::filesystem::path folder;
  std::vector<std::string> classes;                // sorted
  std::vector<std::pair<std::string, int>> files;  // path below folder, class; sorted
  int64_t ignored = 0;                             // files that are no images by their names
};
struct FolderSplits {
  FolderIndex train, test;
};
// Error: no such folders, a class without images, or other classes in one than in the other.
FolderSplits index_image_folder(const std::string& root);
FolderIndex index_test_images(const std::string& root);

// BadImage: not a file, longer than `most` bytes, or unreadable.
std::vector<uint8_t> read_image_file(const std::filesystem::path& file, int64_t most);

}  // namespace octet
