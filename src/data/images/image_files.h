// Which files in a folder are images.
#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "src/data/images/image_fault.h"

namespace octet {

struct ImageFiles {
  std::vector<std::string> names;          // paths below the folder, sorted
  std::map<std::string, int64_t> ignored;  // number of other files, by kind: "hidden", ".txt", "without an ending"
};

// Everything in the folder and its subfolders that is named like an image of a format that octet reads. A folder or a
// broken link with such a name counts too: it is then a bad image that is reported, and not a silent gap. Names that
// begin with a dot are hidden, such as the `._*` files of macOS. A hidden folder counts as one ignored file. Links to
// folders are followed, each folder once. Throws std::filesystem::filesystem_error.
ImageFiles find_image_files(const std::filesystem::path& folder);

// "3 other files ignored: 2 hidden, 1 .txt"
std::string ignored_text(const std::map<std::string, int64_t>& ignored);

// Its first `count` bytes, or all. BadImage: it is not a file, is longer than `most` bytes, or cannot be read.
std::vector<uint8_t> read_image_file(const std::filesystem::path& file, int64_t most,
                                     int64_t count = std::numeric_limits<int64_t>::max());

}  // namespace octet
