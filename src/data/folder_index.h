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
  int64_t ignored = 0;                             // number of files that are not named like images
};
struct FolderSplits {
  FolderIndex train, test;
};
// Error: the folders are missing, a class has no images, or train and test have different classes.
FolderSplits index_image_folder(const std::string& root);
FolderIndex index_test_images(const std::string& root);

bool names_an_image(const std::filesystem::path&);  // ends with .jpg, .jpeg or .png

// BadImage: it is not a file, is longer than `most` bytes, or cannot be read.
std::vector<uint8_t> read_image_file(const std::filesystem::path& file, int64_t most);

}  // namespace octet
