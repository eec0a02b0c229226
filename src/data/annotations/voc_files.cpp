#include "src/data/annotations/voc_files.h"

#include <algorithm>
#include <fstream>

#include "kernels/base/error.h"
#include "src/data/images/image_format.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

constexpr const char* space = " \t\r\n";

struct ListedName {
  std::string whole, first, label;  // label: the last word, if it is -1, 0 or 1; first: what stands before it
  bool annotated = false;           // the whole line is a name that has a file
};

ListedName listed_name(const std::string& line) {
  ListedName listed;
  const size_t begin = line.find_first_not_of(space);
  if (begin == line.npos) return listed;
  listed.whole = line.substr(begin, line.find_last_not_of(space) + 1 - begin);
  const size_t gap = listed.whole.find_last_of(space);
  if (gap == line.npos) return listed;
  const std::string last = listed.whole.substr(gap + 1);
  if (last != "-1" && last != "0" && last != "1") return listed;
  listed.label = last;
  listed.first = listed.whole.substr(0, listed.whole.find_last_not_of(space, gap) + 1);
  return listed;
}

bool is_jpeg(const std::string& file) { return format_named(file)->name == "JPEG"; }

}  // namespace

std::vector<std::string> names_in(const fs::path& list, const fs::path& annotations) {
  const auto annotated = [&](const std::string& name) {
    std::error_code failed;
    return fs::is_regular_file(annotations / (name + ".xml"), failed);
  };
  std::vector<ListedName> lines;
  std::ifstream stream(list);
  for (std::string line; std::getline(stream, line);) {
    if (lines.empty() && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);  // the mark of UTF-8
    lines.push_back(listed_name(line));
    if (!lines.back().label.empty()) lines.back().annotated = annotated(lines.back().whole);
  }
  REQUIRE_USAGE(stream.eof() && !stream.bad(), "check the permissions", list.string(), ": cannot be read");
  // In a numbered series a name without a file is a missing file, and not one that another class has.
  const bool numbered = std::ranges::any_of(lines, &ListedName::annotated);
  std::vector<std::string> names;
  for (const ListedName& line : lines) {
    const bool labelled = !line.label.empty() && !line.annotated && (!numbered || annotated(line.first));
    if (labelled && line.label == "-1") continue;
    std::string name = labelled ? line.first : line.whole;
    if (const std::string stem = fs::path(name).replace_extension().string();
        names_an_image(name) && !annotated(name) && annotated(stem))
      name = stem;
    if (!name.empty()) names.push_back(name);
  }
  REQUIRE_USAGE(!names.empty(), "list one image on each line", list.string(), ": an empty list");
  return names;
}

std::string ImageFinder::find(const std::string& name) {
  const fs::path path = name;
  const Files& files = files_in(path.parent_path());
  const auto found = files.find(path.filename().string());
  if (found == files.end()) return name + ".jpg";
  std::vector<std::string> named = found->second;
  if (std::ranges::find(named, found->first + ".jpg") != named.end()) return name + ".jpg";
  if (std::ranges::any_of(named, is_jpeg)) std::erase_if(named, [](const auto& file) { return !is_jpeg(file); });
  std::ranges::sort(named);  // the order of a directory is not defined
  REQUIRE_USAGE(named.size() == 1, "keep one of them there", (folder_ / path.parent_path()).string(),
                " holds several images of one name: ", joined(named, ", "));
  return (path.parent_path() / named.front()).string();
}

const ImageFinder::Files& ImageFinder::files_in(const fs::path& below) {
  const auto [listed, added] = listed_.try_emplace(below);
  if (!added) return listed->second;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder_ / below, failed)) {
    if (!names_an_image(entry.path())) continue;
    const std::string file = entry.path().filename().string();
    listed->second[entry.path().stem().string()].push_back(file);
  }
  return listed->second;
}

}  // namespace octet
