#include "src/data/sources/split_folders.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "kernels/base/error.h"
#include "src/config/keys.h"
#include "src/config/yaml.h"
#include "src/data/images/image_format.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

enum class Part : uint8_t { none, train, validation, test };
struct SplitWord {
  std::string_view word;
  Part part;
};
constexpr SplitWord split_words[] = {
    {"train", Part::train},           {"training", Part::train},      {"val", Part::validation},
    {"valid", Part::validation},      {"validate", Part::validation}, {"validation", Part::validation},
    {"dev", Part::validation},        {"eval", Part::validation},     {"evaluate", Part::validation},
    {"evaluation", Part::validation}, {"test", Part::test},           {"testing", Part::test},
};
// They say nothing about which split it is.
constexpr std::string_view filling[] = {"set",   "data",   "dataset", "image", "images", "img",     "imgs",
                                        "files", "folder", "samples", "split", "photos", "pictures"};

// "TrainImages-2017" -> train, images, 2017
std::vector<std::string> words_of(const std::string& name) {
  const auto kind = [](char c) { return isdigit(uint8_t(c)) ? 2 : isalpha(uint8_t(c)) || (c & 0x80) ? 1 : 0; };
  std::vector<std::string> words;
  for (size_t i = 0; i < name.size(); ++i) {
    if (kind(name[i]) == 0) continue;
    const bool begins =
        i == 0 || kind(name[i]) != kind(name[i - 1]) || (isupper(uint8_t(name[i])) && islower(uint8_t(name[i - 1])));
    if (begins) words.emplace_back();
    words.back() += static_cast<char>(tolower(uint8_t(name[i])));
  }
  return words;
}

Part part_of(std::string_view word) {
  for (const auto& [known, part] : split_words) {
    if (!word.starts_with(known)) continue;
    const std::string_view rest = word.substr(known.size());
    if (rest.empty() || std::ranges::count(filling, rest) > 0) return part;  // trainset
  }
  return Part::none;
}

struct NamedFolder {
  std::string name, rest;  // rest: the other words
  Part part = Part::none;
  bool plain = false;    // train, val or test in any case
  bool repeats = false;  // holds a folder of the name of one beside it
};

const char* plain_name(Part part) { return part == Part::train ? "train" : part == Part::validation ? "val" : "test"; }

NamedFolder named_folder(const std::string& name) {
  NamedFolder folder{.name = name, .rest = {}};
  const std::vector<std::string> words = words_of(name);
  for (const std::string& word : words) {
    const Part part = part_of(word);
    if (part != Part::none && folder.part != Part::none) return {.name = name, .rest = {}};  // train_test
    if (part != Part::none)
      folder.part = part;
    else if (std::ranges::count(filling, word) == 0)
      folder.rest += word + " ";
  }
  folder.plain = words.size() == 1 && folder.part != Part::none && words.front() == plain_name(folder.part);
  return folder;
}

using Folders = std::vector<NamedFolder>;

template <class Takes>
Folders those(const Folders& folders, Takes takes) {
  Folders chosen;
  std::ranges::copy_if(folders, std::back_inserter(chosen), takes);
  return chosen;
}
// The folders that may be splits.
Folders candidates_in(const fs::path& root, const std::vector<std::string>& names) {
  Folders folders;
  for (const std::string& name : names) {
    NamedFolder folder = named_folder(name);
    if (folder.part == Part::none || holds_images_alone(root / name)) continue;
    folder.repeats = std::ranges::any_of(visible_folders(root / name), [&](const std::string& inner) {
      return inner != name && std::ranges::count(names, inner) > 0;
    });
    folders.push_back(std::move(folder));
  }
  return folders;
}

// The first of 0 val, 1 test, 2 another folder of validation, 3 another test is the folder of evaluation.
int place_of(const NamedFolder& folder) { return (folder.plain ? 0 : 2) + (folder.part == Part::test ? 1 : 0); }

// Of folders of one split: the one in the first place, and of several that of the plain name. Empty: there is none.
std::string first_of(const fs::path& root, const Folders& folders) {
  if (folders.empty()) return {};
  const int place = place_of(*std::ranges::min_element(folders, {}, place_of));
  const Folders found = those(folders, [&](const NamedFolder& folder) { return place_of(folder) == place; });
  const char* const plain = plain_name(found.front().part);
  if (std::ranges::count(found, plain, &NamedFolder::name) > 0) return plain;
  std::vector<std::string> names;
  for (const NamedFolder& folder : found) names.push_back(say("`", shown(folder.name), "`"));
  REQUIRE_USAGE(names.size() < 2, say("name one of them ", plain, ", or move the others away"), root.string(), ": ",
                joined(names, " and "), " seem to be the same split");
  return found.front().name;
}

// empty: receives the folders that would come first, if they held images.
std::string test_among(const fs::path& root, const Folders& folders, std::vector<std::string>& empty) {
  const auto full = [&](const NamedFolder& folder) { return holds_images(root / folder.name); };
  const Folders judged = those(folders, full);
  if (judged.empty()) return first_of(root, folders);
  const std::string test = first_of(root, judged);
  const int place = place_of(*std::ranges::find(judged, test, &NamedFolder::name));
  for (const NamedFolder& folder : folders)
    if (place_of(folder) <= place && !full(folder)) empty.push_back(folder.name);
  return test;
}

std::string train_among(const fs::path& root, const Folders& folders, bool alone) {
  const auto has_test = [&](const NamedFolder& train) {
    return std::ranges::any_of(
        folders, [&](const NamedFolder& test) { return test.part != Part::train && test.rest == train.rest; });
  };
  return first_of(root, those(folders, [&](const NamedFolder& folder) {
                    return folder.part == Part::train && (folder.plain || alone || folder.repeats || has_test(folder));
                  }));
}

// training_set/training_set/, as some archives unpack.
fs::path innermost(fs::path folder) {
  for (;;) {
    const std::vector<std::string> inner = visible_folders(folder);
    if (inner.size() != 1) return folder;
    const NamedFolder own = named_folder(folder.filename().string()), next = named_folder(inner.front());
    const bool again = own.part == next.part && own.rest == next.rest && own.part != Part::none;
    if (!again || visible_folders(folder / inner.front()).empty()) return folder;
    folder /= inner.front();
  }
}

[[noreturn]] void refuse(const fs::filesystem_error& error) {
  throw UsageError(__FILE__, __LINE__, error.what(), "check the permissions of the folder");
}

std::vector<std::string> folders_of_root(const fs::path& root) {
  std::error_code failed;
  REQUIRE_USAGE(fs::is_directory(root, failed),
                "set data.root to a folder that holds train/<class>/*.jpg and "
                "val/<class>/*.jpg, or folders of classes",
                root.string(), ": there is no such folder");
  return visible_folders(root);
}

}  // namespace

std::vector<std::string> visible_folders(const fs::path& folder) try {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && name[0] != '.') names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
} catch (const fs::filesystem_error& error) {
  refuse(error);
}

namespace {

// The folders of splits in a folder, of which `names` are all.
SplitFolders with_others(const fs::path& root, const std::vector<std::string>& names, const std::string& train,
                         const Folders& tests) {
  SplitFolders splits;
  const std::string test = test_among(root, tests, splits.empty);
  if (!train.empty()) splits.train = innermost(root / train);
  if (!test.empty()) splits.test = innermost(root / test);
  for (const std::string& name : names)
    if (name != train && name != test) splits.others.push_back(name);
  return splits;
}

}  // namespace

SplitFolders find_splits(const fs::path& root) try {
  const std::vector<std::string> names = folders_of_root(root);
  const Folders folders = candidates_in(root, names);
  const std::string train = train_among(root, folders, names.size() == 1);
  const std::string rest = named_folder(train).rest;
  return with_others(root, names, train, those(folders, [&](const NamedFolder& folder) {
                       if (folder.part == Part::train) return false;
                       return train.empty() ? folder.plain || folder.repeats : folder.rest == rest;
                     }));
} catch (const fs::filesystem_error& error) {
  refuse(error);
}

SplitFolders find_test_folder(const fs::path& root) try {
  const std::vector<std::string> names = folders_of_root(root);
  return with_others(root, names, {}, those(candidates_in(root, names), [](const NamedFolder& folder) {
                       return folder.part != Part::train;
                     }));
} catch (const fs::filesystem_error& error) {
  refuse(error);
}

std::optional<SplitName> split_name(const std::string& name) {
  const NamedFolder folder = named_folder(name);
  if (folder.part == Part::none) return {};
  return SplitName{folder.part == Part::train, folder.rest.empty()};
}

namespace {

// entered: folders, by their true paths.
bool finds_an_image(const fs::path& folder, std::set<fs::path>& entered) {
  std::error_code failed;
  if (!entered.insert(fs::canonical(folder, failed)).second) return false;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().filename().string()[0] == '.') continue;
    if (names_an_image(entry.path()) || (entry.is_directory(failed) && finds_an_image(entry.path(), entered)))
      return true;
  }
  return false;
}

}  // namespace

bool holds_images(const fs::path& folder) {
  std::set<fs::path> entered;
  return finds_an_image(folder, entered);
}

bool holds_images_alone(const fs::path& folder) {
  bool images = false;
  std::error_code failed;  // who reads the folder reports it
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    if (name[0] == '.') continue;
    if (names_an_image(entry.path()))
      images = true;
    else if (entry.is_directory())
      return false;
  }
  return images;
}

}  // namespace octet
