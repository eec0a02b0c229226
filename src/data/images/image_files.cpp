#include "src/data/images/image_files.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "kernels/base/error.h"
#include "src/config/keys.h"
#include "src/config/yaml.h"
#include "src/data/images/image_format.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

std::string kind_of(const fs::path& file) {
  std::string ending = file.extension().string();
  if (ending.empty()) return "without an ending";
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return static_cast<char>(tolower(c)); });
  return shown(ending);
}

// below: of `folder`, ends with a slash or is empty. entered: folders, by their true paths.
void add_files(const fs::path& folder, const std::string& below, std::set<fs::path>& entered, ImageFiles& files) {
  if (!entered.insert(fs::canonical(folder)).second) return;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::error_code broken;  // a link to nothing
    if (name.starts_with('.'))
      ++files.ignored["hidden"];
    else if (names_an_image(entry.path()))
      files.names.push_back(below + name);
    else if (entry.is_directory(broken))
      add_files(entry.path(), below + name + "/", entered, files);
    else
      ++files.ignored[kind_of(entry.path())];
  }
}

}  // namespace

ImageFiles find_image_files(const fs::path& folder) {
  ImageFiles files;
  std::set<fs::path> entered;
  add_files(folder, "", entered, files);
  std::ranges::sort(files.names);
  return files;
}

std::string ignored_text(const std::map<std::string, int64_t>& ignored) {
  std::vector<std::string> kinds;
  int64_t all = 0;
  for (const auto& [kind, count] : ignored) {
    kinds.push_back(say(count, " ", kind));
    all += count;
  }
  return say(all, " other files ignored", kinds.empty() ? "" : ": ", joined(kinds, ", "));
}

std::vector<uint8_t> read_image_file(const fs::path& file, int64_t most, int64_t count) {
  std::error_code failed;
  const auto refuse = [](const std::string& why) { throw BadImage(ImageFault::unreadable, why); };
  if (!fs::is_regular_file(file, failed)) refuse(failed ? failed.message() : "not a regular file");
  const auto size = static_cast<int64_t>(fs::file_size(file, failed));
  if (failed) refuse(failed.message());
  if (size > most)
    throw BadImage(ImageFault::too_large, say("a file of ", size, " bytes, more than data.max_pixels could fill"));
  count = std::min(count, size);
  std::vector<uint8_t> bytes(count);
  std::ifstream stream(file, std::ios::binary);
  stream.read(reinterpret_cast<char*>(bytes.data()), count);
  if (stream.gcount() != count) refuse("cannot be read");
  return bytes;
}

}  // namespace octet
