// Annotations in the form of YOLO's tools: data.yaml names the classes and the folders of the splits, and beside each
// images/ stands labels/, with a text file for each image: a line "class x y width height" for each object, in shares
// of the picture. https://docs.ultralytics.com/datasets/detect
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <set>

#include "kernels/base/error.h"
#include "src/config/yaml.h"
#include "src/data/annotations/annotation_files.h"
#include "src/data/annotations/number_text.h"
#include "src/data/images/image_fault.h"
#include "src/data/images/image_format.h"
#include "src/data/images/open_image.h"
#include "src/data/on_threads.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

constexpr int64_t most_classes = 100'000, most_lines = 100'000;

struct DataFile {  // what data.yaml says
  std::string file;
  std::vector<std::string> classes;
  std::map<std::string, std::vector<std::string>> splits = {};  // "train", "val", "test": folders or lists of images
  std::string base = {};                                        // `path`
};

std::string data_file_in(const fs::path& root) {
  for (const char* name : {"data.yaml", "data.yml", "dataset.yaml"})
    if (std::error_code failed; fs::is_regular_file(root / name, failed)) return (root / name).string();
  throw UsageError(
      __FILE__, __LINE__, say(root.string(), ": no data.yaml, which names the classes"),
      "add data.yaml with `names: [first, second]` and, if the folders are not images/train and images/val, "
      "`train:` and `val:`");
}

std::vector<std::string> names_in(const YAML::Node& node, const std::string& file) {
  std::vector<std::string> names;
  if (node.IsSequence()) {
    for (const YAML::Node& name : node) names.push_back(text_of(name, file));
  } else {
    for (const auto& [key, value] : entries_of(node, file)) {
      const std::optional<int64_t> number = id_in(text_of(key, file));
      REQUIRE_USAGE(number && *number >= 0 && *number < most_classes, "number the classes from 0",
                    position_of(key.Mark(), file), ": `", shown(text_of(key, file)), "` is no number of a class");
      if (names.size() <= size_t(*number)) names.resize(size_t(*number) + 1);
      names[size_t(*number)] = text_of(value, file);
    }
  }
  const auto unnamed = std::ranges::find(names, std::string());
  REQUIRE_USAGE(!names.empty() && unnamed == names.end(), "give every number from 0 on a name", file, ": names: ",
                names.empty() ? std::string("there are none")
                              : say("class ", unnamed - names.begin(), " of ", names.size(), " has none"));
  std::set<std::string> different(names.begin(), names.end());
  REQUIRE_USAGE(different.size() == names.size(), "give each class a name of its own", file,
                ": names: two classes have the same name");
  return names;
}

DataFile read_data_file(const fs::path& root) {
  DataFile data{.file = data_file_in(root), .classes = {}};
  for (const auto& [key, value] : entries_of(parse_yaml(read_text_file(data.file), data.file), data.file)) {
    const std::string name = text_of(key, data.file);
    if (name == "names") data.classes = names_in(value, data.file);
    if (name == "path") data.base = text_of(value, data.file);
    if (name != "train" && name != "val" && name != "valid" && name != "test") continue;
    std::vector<std::string>& folders = data.splits[name == "valid" ? "val" : name];
    if (value.IsSequence()) {
      for (const YAML::Node& folder : value) folders.push_back(text_of(folder, data.file));
    } else if (!text_of(value, data.file).empty()) {
      folders.push_back(text_of(value, data.file));
    }
  }
  REQUIRE_USAGE(!data.classes.empty(), "add `names: [first, second]`", data.file, ": it names no class");
  return data;
}

// A folder or list of data.yaml. Tools write paths that held where the data were made: their last parts are looked for
// below the root.
fs::path place_of(const fs::path& root, const DataFile& data, const std::string& named, bool optional) {
  std::error_code failed;
  std::vector<fs::path> tried;
  if (!named.starts_with("..")) tried = {root / data.base / named, root / named};
  for (fs::path rest = named; !rest.empty();) {
    fs::path shorter;
    for (auto part = std::next(rest.begin()); part != rest.end(); ++part) shorter /= *part;
    if (!shorter.empty()) tried.push_back(root / shorter);
    rest = shorter;
  }
  tried.insert(tried.end(), {root / data.base / named, root / named});
  for (const fs::path& path : tried)
    if (fs::exists(path, failed)) return path.lexically_normal();
  if (optional) return {};
  throw UsageError(__FILE__, __LINE__, say(data.file, ": there is no `", shown(named), "` below ", root.string()),
                   "name folders of images relative to the folder of data.yaml");
}

// The folders and lists of images of a split, by what data.yaml says or, if it says nothing, by their names.
// judges: there is a set for evaluation. optional: without images nothing is returned.
std::vector<fs::path> places_of(const fs::path& root, const DataFile& data, Split split, bool judges, bool optional) {
  std::vector<fs::path> places;
  const std::vector<std::string> keys =
      split == Split::train ? std::vector<std::string>{"train"} : std::vector<std::string>{"val", "test"};
  for (const std::string& key : keys) {
    const auto said = data.splits.find(key);
    if (said == data.splits.end()) continue;
    for (const std::string& named : said->second)
      if (const fs::path place = place_of(root, data, named, optional); !place.empty()) places.push_back(place);
    if (!places.empty()) return places;
  }
  std::vector<std::string> names =
      split == Split::train ? std::vector<std::string>{"train"} : std::vector<std::string>{"val", "valid", "test"};
  if (split == Split::train && !judges) names.emplace_back();  // one folder, which data.holdout divides
  for (const std::string& name : names)
    for (const fs::path& path : {root / "images" / name, root / name / "images"})
      if (std::error_code failed; fs::is_directory(path, failed)) return {path};
  if (optional) return {};
  throw UsageError(__FILE__, __LINE__,
                   say(root.string(), ": no images for ", split == Split::train ? "training" : "testing"),
                   say("put them into images/", names.front(), " and their labels into labels/", names.front(),
                       ", or name their folder in ", data.file,
                       split == Split::train ? "" : "; or set data.holdout: 0.15 to keep some of the others"));
}

std::vector<fs::path> images_at(const fs::path& place) {
  std::vector<fs::path> images;
  std::error_code failed;
  if (fs::is_regular_file(place, failed)) {  // a list
    std::ifstream lines(place);
    for (std::string line; std::getline(lines, line);)
      if (const std::string_view name = without_blanks(line); !name.empty())
        images.push_back((place.parent_path() / name).lexically_normal());
  } else {
    for (const auto& entry : fs::recursive_directory_iterator(place))
      if (names_an_image(entry.path())) images.push_back(entry.path());
    std::ranges::sort(images);
  }
  REQUIRE_USAGE(!images.empty(), say("put images there (", image_endings(), ")"), place.string(), ": no image");
  return images;
}

// ".../images/train/a.jpg" -> ".../labels/train/a.txt": the last folder of this name counts.
fs::path labels_of(const fs::path& image) {
  std::vector<fs::path> parts(image.begin(), image.end());
  const auto last = std::ranges::find(parts.rbegin(), parts.rend(), fs::path("images"));
  if (last != parts.rend()) *last = "labels";
  fs::path labels;
  for (const fs::path& part : parts) labels /= part;
  return labels.replace_extension(".txt");
}

struct Line {
  int64_t label = 0;
  double left = 0, top = 0, right = 0, bottom = 0;  // shares of the picture
};
// "class x y width height", or "class" and the corners of an outline.
Line line_in(std::string_view text, const std::string& place) {
  std::vector<double> numbers;
  while (!(text = without_blanks(text)).empty()) {
    const std::string_view word = text.substr(0, text.find_first_of(" \t"));
    const std::optional<double> number = number_in(word);
    REQUIRE_USAGE(number, "write numbers: class x y width height", place, ": `", shown(std::string(word)),
                  "` is no number");
    numbers.push_back(*number);
    text.remove_prefix(word.size());
  }
  const bool outline = numbers.size() >= 7 && numbers.size() % 2 == 1;
  REQUIRE_USAGE(numbers.size() == 5 || outline,
                "write class x y width height, or class and the corners of an outline: an odd number", place, ": ",
                numbers.size(), " numbers");
  REQUIRE_USAGE(numbers[0] == std::trunc(numbers[0]) && numbers[0] >= 0 && numbers[0] < 1e9,
                "number the classes from 0", place, ": ", numbers[0], " is no number of a class");
  Line line{.label = int64_t(numbers[0])};
  if (!outline) {
    line.left = numbers[1] - numbers[3] / 2, line.right = numbers[1] + numbers[3] / 2;
    line.top = numbers[2] - numbers[4] / 2, line.bottom = numbers[2] + numbers[4] / 2;
    return line;
  }
  line.left = line.right = numbers[1], line.top = line.bottom = numbers[2];
  for (size_t i = 1; i < numbers.size(); i += 2) {
    line.left = std::min(line.left, numbers[i]), line.right = std::max(line.right, numbers[i]);
    line.top = std::min(line.top, numbers[i + 1]), line.bottom = std::max(line.bottom, numbers[i + 1]);
  }
  return line;
}

std::vector<Line> lines_of(const fs::path& file) {
  std::vector<Line> lines;
  std::ifstream stream(file);
  int64_t number = 0;
  for (std::string text; std::getline(stream, text);) {
    ++number;
    if (without_blanks(text).empty()) continue;
    REQUIRE_USAGE(int64_t(lines.size()) < most_lines, "split the image", file.string(), ": more than 100,000 objects");
    lines.push_back(line_in(text, say(file.string(), ":", number)));
  }
  REQUIRE_USAGE(stream.eof() && !stream.bad(), "check the permissions", file.string(), ": cannot be read");
  return lines;
}

// The size in which shares are of the picture. A file that cannot be read has none: the loader says what is wrong.
ImageSize picture_size(const std::string& path, const Config::Data& data) {
  try {
    return size_of(header_of(path, data.max_pixels), data.turn_upright == "false" ? View::stored : View::upright);
  } catch (const BadImage&) {
    return {0, 0};
  }
}

struct Missing {  // what is counted and said once
  int64_t labels = 0, names = 0, shares = 0;
  std::string first_name = {};
};

void add_objects(AnnotatedImage& image, const std::vector<Line>& lines, const Config::Data& data, const DataFile& file,
                 Missing& missing) {
  for (const Line& line : lines) {
    if (line.label >= int64_t(file.classes.size())) {
      const std::string text = say(image.path, ": class ", line.label, " has no name in ", file.file);
      REQUIRE_USAGE(data.bad_boxes == "drop", "add its name, or set data.bad_boxes: drop", text);
      if (missing.names++ == 0) missing.first_name = text;
      continue;
    }
    constexpr double surely_pixels = 10;
    if (std::max(line.right, line.bottom) > surely_pixels) ++missing.shares;
    const double width = image.width, height = image.height;
    const BoxInFile box{line.left * width, line.top * height, (line.right - line.left) * width,
                        (line.bottom - line.top) * height};
    image.objects.push_back({.id = int64_t(image.objects.size()) + 1,
                             .box = box,
                             .area = box.width * box.height,
                             .label = int32_t(line.label)});
  }
}

// Files of labels beside those of the images, whose images are not there.
std::vector<std::string> labels_without_image(const std::vector<fs::path>& images) {
  std::set<fs::path> folders, expected;
  for (const fs::path& image : images)
    expected.insert(labels_of(image)), folders.insert(labels_of(image).parent_path());
  std::vector<std::string> labels;
  for (const fs::path& folder : folders) {
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(folder, failed))
      if (entry.path().extension() == ".txt" && entry.path().filename() != "classes.txt")
        if (!expected.contains(entry.path())) labels.push_back(entry.path().string());
  }
  std::ranges::sort(labels);
  return labels;
}

void doubt(const std::string& root, const Missing& missing, Annotations& all) {
  const auto add = [&](const std::string& text) { all.doubts.push_back(say(root, ": ", text)); };
  if (missing.labels > 0)
    add(say(missing.labels, " of ", all.images.size(),
            " images have no file of labels: they count as images without objects"));
  if (!all.without_image.empty())
    add(say(all.without_image.size(), " files of labels have no image, such as ", all.without_image.front()));
  if (missing.shares > 0)
    add(say(
        missing.shares,
        " boxes lie far beyond their images: are their coordinates pixels? YOLO's are shares of the image, 0 to 1"));
  if (missing.names > 0)
    add(say(missing.names, " objects of classes without a name are left out, such as ", missing.first_name));
}

}  // namespace

bool yolo_judges(const Config::Data& data) {
  return !places_of(data.root, read_data_file(data.root), Split::test, true, true).empty();
}

Annotations read_yolo(const Config::Data& data, Split split) {
  const fs::path root = data.root;
  const DataFile file = read_data_file(root);
  const bool judges = yolo_judges(data);
  std::vector<fs::path> paths;
  for (const fs::path& place : places_of(root, file, split, judges, false)) {
    const std::vector<fs::path> found = images_at(place);
    paths.insert(paths.end(), found.begin(), found.end());
  }
  std::vector<ImageSize> sizes(paths.size());
  on_threads(data.workers, paths.size(), [&](size_t i) { sizes[i] = picture_size(paths[i].string(), data); });
  Annotations all{.classes = file.classes, .category_ids = {}, .images = {}};
  for (size_t label = 0; label < all.classes.size(); ++label) all.category_ids.push_back(int64_t(label));
  Missing missing;
  std::set<fs::path> seen;
  for (size_t i = 0; i < paths.size(); ++i) {
    REQUIRE_USAGE(seen.insert(paths[i]).second, "list each image once", file.file, ": ", paths[i].string(),
                  " is there twice");
    AnnotatedImage image{.id = int64_t(i) + 1,
                         .name = paths[i].lexically_relative(root).string(),
                         .path = paths[i].string(),
                         .width = int32_t(sizes[i].width),
                         .height = int32_t(sizes[i].height),
                         .objects = {}};
    const fs::path labels = labels_of(paths[i]);
    std::error_code failed;
    if (!fs::is_regular_file(labels, failed))
      ++missing.labels;
    else if (image.width > 0)
      add_objects(image, lines_of(labels), data, file, missing);
    all.images.push_back(std::move(image));
  }
  all.without_image = labels_without_image(paths);
  all.without_class = missing.names;
  doubt(data.root, missing, all);
  return all;
}

}  // namespace octet
