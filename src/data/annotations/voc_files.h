// Which images a list of PASCAL VOC names, and where their files are.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace octet {

// The names in a list, in its order. The lists of one class have a second column, -1, 0 or 1, where -1 means that the
// class is absent: such names are left out. A number belongs to the name if `annotations` holds a file of that name
// ("Snap 1.xml"). The ending of an image file is dropped if the file without it is annotated. UsageError: the list
// cannot be read, or names no image.
std::vector<std::string> names_in(const std::filesystem::path& list, const std::filesystem::path& annotations);

// Finds image files by their names without ending. Reads each folder once.
class ImageFinder {
 public:
  explicit ImageFinder(std::filesystem::path folder) : folder_(std::move(folder)) {}
  // "cam0/000" -> "cam0/000.png"; with the ending .jpg if there is no such file of a format that octet reads. A JPEG
  // file comes before others, such as masks. UsageError: several files have this name.
  std::string find(const std::string& name);

 private:
  using Files = std::map<std::string, std::vector<std::string>>;  // names of files, by their names without ending
  const Files& files_in(const std::filesystem::path& below);

  std::filesystem::path folder_;
  std::map<std::filesystem::path, Files> listed_;
};

}  // namespace octet
