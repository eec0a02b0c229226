#include "src/data/sources/folder_layout.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "kernels/base/error.h"
#include "src/config/keys.h"
#include "src/config/spelling.h"
#include "src/config/yaml.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

// Of the folders in a folder, those that hold images: the first `most`.
std::vector<std::string> filled_folders(const fs::path& folder, size_t most) {
  std::vector<std::string> filled;
  for (const std::string& name : visible_folders(folder))
    if (filled.size() < most && holds_images(folder / name)) filled.push_back(name);
  return filled;
}

// ROOT/data/train/cat: `data` is the folder that was meant.
void require_unwrapped(const fs::path& root) {
  fs::path inner = root;
  std::vector<std::string> filled = filled_folders(root, 2);
  while (filled.size() == 1) {
    inner /= filled.front();
    filled = filled_folders(inner, 2);
    REQUIRE_USAGE(filled.size() < 2 && (filled.empty() || find_splits(inner).train.empty()),
                  say("did you mean ", inner.string(), "?"), root.string(), ": only ", inner.string(),
                  " holds folders of images: ", some_of(visible_folders(inner)));
  }
}

void require_no_flat_splits(const fs::path& root) {
  std::vector<std::string> flat[2];  // for evaluation, and for training
  bool plain[2] = {}, others = false;
  for (const std::string& name : visible_folders(root)) {
    const std::optional<SplitName> split = split_name(name);
    if (!split || !holds_images_alone(root / name)) {
      others = true;
      continue;
    }
    flat[split->trains].push_back(shown(name));
    plain[split->trains] |= split->plain;
  }
  const bool splits = !flat[0].empty() && !flat[1].empty() && (!others || (plain[0] && plain[1]));
  REQUIRE_USAGE(!splits,
                say("sort the images into train/<class>/*.jpg; if these folders are classes, move them into ",
                    (root / "train").string()),
                root.string(), ": ", joined(flat[1], ", "), " and ", joined(flat[0], ", "),
                " hold images, and no folders of classes");
}

// Of each class, the folders in it that hold images.
std::map<std::string, std::set<std::string>> insides_of(const FolderIndex& index) {
  std::map<std::string, std::set<std::string>> insides;
  for (const auto& [file, label] : index.files) {
    const std::string& name = index.classes[static_cast<size_t>(label)];
    const size_t begin = name.size() + 1, end = file.find('/', begin);
    if (end != file.npos) insides[name].insert(file.substr(begin, end - begin));
  }
  return insides;
}

bool holds_both_splits(const std::set<std::string>& folders) {
  bool trains = false, evaluates = false;
  for (const std::string& folder : folders)
    if (const std::optional<SplitName> split = split_name(folder)) (split->trains ? trains : evaluates) = true;
  return trains && evaluates;
}

std::vector<std::string> list_of(const std::set<std::string>& names) { return {names.begin(), names.end()}; }

// "Cat " -> "cat"
std::string bare(const std::string& name) {
  std::string letters;
  for (const char c : name)
    if (!isspace(uint8_t(c))) letters += static_cast<char>(tolower(uint8_t(c)));
  return letters;
}

void add_classes_alike(const FolderIndex& index, std::vector<std::string>& doubts) {
  std::map<std::string, std::vector<std::string>> alike;
  for (const std::string& name : index.classes) alike[bare(name)].push_back(say("`", shown(name), "`"));
  for (const auto& [letters, names] : alike)
    if (names.size() > 1)
      doubts.push_back(say(joined(names, " and "), " in ", index.folder.string(),
                           " are different classes. If they are one, put their images into one folder"));
}

void add_insides(const FolderIndex& index, std::vector<std::string>& doubts) {
  const auto insides = insides_of(index);
  std::vector<std::string> divided, repeating;
  for (const auto& [name, inside] : insides) {
    if (holds_both_splits(inside)) divided.push_back(name);
    if (std::ranges::count_if(inside, [&, own = name](const std::string& inner) {
          return inner != own && std::ranges::count(index.classes, inner) > 0;
        }) > 1)
      repeating.push_back(name);
  }
  const std::string where = index.folder.string();
  if (!divided.empty())
    doubts.push_back(say("classes in ", where, " hold folders of splits, which are not kept apart: ", some_of(divided),
                         ". If these are classes, move their splits to train/<class> and val/<class>; if they are data "
                         "sets, name one of them"));
  if (!repeating.empty())
    doubts.push_back(say("classes in ", where, " hold folders of the names of other classes: ", some_of(repeating),
                         ". If their images are for evaluation, name the folder val and move the others into train"));
  const auto same = [&](const auto& inside) { return inside.second == insides.begin()->second; };
  if (!divided.empty() || insides.size() < 2 || insides.size() < index.classes.size() ||
      !std::ranges::all_of(insides, same) || insides.begin()->second.size() < 2)
    return;
  doubts.push_back(say("each folder in ", where, " holds the same folders ", some_of(list_of(insides.begin()->second)),
                       ". If these are the classes, name the former train and val"));
}

}  // namespace

namespace {

// The first names, each with what `note` says of it.
std::string first_of(const std::vector<std::string>& names,
                     const std::function<std::string(const std::string&)>& note) {
  constexpr size_t most = 8;
  std::vector<std::string> first;
  for (const std::string& name : names)
    if (first.size() < most)
      first.push_back((name.starts_with(' ') || name.ends_with(' ') ? say("`", shown(name), "`") : shown(name)) +
                      note(name));
  const size_t more = names.size() - first.size();
  return joined(first, ", ") + (more > 0 ? say(" and ", more, " more") : "");
}

}  // namespace

std::string some_of(const std::vector<std::string>& names) {
  return first_of(names, [](const std::string&) { return std::string(); });
}

std::string with_nearest(const std::vector<std::string>& names, const std::vector<std::string>& known) {
  return first_of(names, [&](const std::string& name) {
    const auto distance = [&](const std::string& other) { return edit_distance(name, other); };
    const auto nearest = std::ranges::min_element(known, {}, distance);
    const bool shares_letters = nearest != known.end() && distance(*nearest) < name.size();
    return shares_letters ? say(" (nearest: `", shown(*nearest), "`)") : std::string();
  });
}

std::string contents_of_folder(const fs::path& folder) {
  std::vector<std::string> parts;
  if (const std::vector<std::string> folders = visible_folders(folder); !folders.empty())
    parts.push_back(say(folders.size(), folders.size() == 1 ? " folder (" : " folders (", some_of(folders), ")"));
  std::map<std::string, int64_t> files;  // by ending
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (entry.is_directory(failed) || entry.path().filename().string().starts_with('.')) continue;
    const std::string ending = entry.path().extension().string();
    ++files[ending.empty() ? "without an ending" : shown(ending)];
  }
  for (const auto& [ending, count] : files) parts.push_back(say(count, " ", ending));
  return parts.empty() ? "nothing" : joined(parts, ", ");
}

void require_classes_directly_in(const fs::path& split) {
  const std::vector<std::string> names = visible_folders(split);
  if (names.size() != 1) return;
  const fs::path inner = split / names.front();
  REQUIRE_USAGE(
      filled_folders(inner, 2).size() < 2,
      say("if these are the classes, move them into ", split.string(), "; otherwise give two classes or more"),
      split.string(), ": the only class is ", shown(names.front()), ", and holds the folders ",
      some_of(visible_folders(inner)));
}

void require_classes_in(const fs::path& root) {
  require_no_flat_splits(root);
  require_unwrapped(root);
}

std::vector<std::string> doubts_about_classes(const FolderIndex& index, bool is_split) {
  std::vector<std::string> doubts;
  add_classes_alike(index, doubts);
  add_insides(index, doubts);
  if (is_split) return doubts;
  for (const std::string& name : index.classes) {
    const std::optional<SplitName> split = split_name(name);
    const fs::path folder = index.folder / name;
    const bool flat = holds_images_alone(folder);
    if (!split || !split->plain || (split->trains && flat)) continue;
    const std::string train = (index.folder / "train").string();
    doubts.push_back(say(folder.string(), " is read as a class. ",
                         split->trains ? say("If it is for training, name it train")
                                       : say("If it is for evaluation, move the other folders into ", train),
                         !split->trains && flat ? ", and sort its images into folders of classes" : ""));
  }
  return doubts;
}

std::vector<std::string> doubts_about_empty_folders(const fs::path& root, const SplitFolders& splits) {
  std::vector<std::string> doubts;
  for (const std::string& name : splits.empty)
    doubts.push_back(say((root / name).string(), " holds no image, so ", splits.test.string(), " is read instead"));
  return doubts;
}

std::vector<std::string> doubts_about_unread_folders(const fs::path& root, const SplitFolders& splits) {
  std::vector<std::string> unread;
  for (const std::string& name : splits.others) {
    const bool another_split = split_name(name) && !holds_images_alone(root / name);
    if (!another_split && holds_images(root / name)) unread.push_back(name);
  }
  if (unread.empty()) return {};
  const std::string train = splits.train.string();
  return {say("folders in ", root.string(), " hold images and are not read: ", some_of(unread), ". ", train,
              " is the folder of training; if they are classes, move them into it")};
}

}  // namespace octet
