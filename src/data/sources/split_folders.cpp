#include "src/data/sources/split_folders.h"

#include <algorithm>
#include <iterator>

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
};

NamedFolder named_folder(const std::string& name) {
  NamedFolder folder{name, {}, Part::none};
  for (const std::string& word : words_of(name)) {
    const Part part = part_of(word);
    if (part != Part::none && folder.part != Part::none) return {name, {}, Part::none};  // train_test
    if (part != Part::none)
      folder.part = part;
    else if (std::ranges::count(filling, word) == 0)
      folder.rest += word + " ";
  }
  return folder;
}

bool holds_images_itself(const fs::path& folder) {
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

using Folders = std::vector<NamedFolder>;

// The folders that may be splits.
Folders candidates_in(const fs::path& root, const std::vector<std::string>& names) {
  Folders folders;
  for (const std::string& name : names)
    if (NamedFolder folder = named_folder(name); folder.part != Part::none && !holds_images_itself(root / name))
      folders.push_back(std::move(folder));
  return folders;
}

// The folder of the plain name if it is there, and otherwise the only one. Empty: there is none.
std::string only_one(const fs::path& root, const Folders& found, const char* plain) {
  if (std::ranges::count(found, plain, &NamedFolder::name) > 0) return plain;
  std::vector<std::string> names;
  for (const NamedFolder& folder : found) names.push_back(say("`", shown(folder.name), "`"));
  REQUIRE_USAGE(names.size() < 2, say("name one of them ", plain, ", or move the others away"), root.string(), ": ",
                joined(names, " and "), " seem to be the same split");
  return found.empty() ? std::string() : found.front().name;
}

template <class Takes>
Folders those(const Folders& folders, Takes takes) {
  Folders chosen;
  std::ranges::copy_if(folders, std::back_inserter(chosen), takes);
  return chosen;
}
Folders those_of(const Folders& folders, Part part) {
  return those(folders, [&](const NamedFolder& folder) { return folder.part == part; });
}

bool is_plain_test(const NamedFolder& folder) { return folder.name == "val" || folder.name == "test"; }

// Of folders for evaluation: val, test, and then those of other names.
std::string test_among(const fs::path& root, const Folders& folders) {
  for (const char* plain : {"val", "test"})
    if (std::ranges::count(folders, plain, &NamedFolder::name) > 0) return plain;
  const std::string validation = only_one(root, those_of(folders, Part::validation), "val");
  return validation.empty() ? only_one(root, those_of(folders, Part::test), "test") : validation;
}

std::string train_among(const fs::path& root, const Folders& folders, bool alone) {
  const auto has_test = [&](const NamedFolder& train) {
    return std::ranges::any_of(
        folders, [&](const NamedFolder& test) { return test.part != Part::train && test.rest == train.rest; });
  };
  const auto counts = [&](const NamedFolder& train) { return train.name == "train" || alone || has_test(train); };
  return only_one(root, those(those_of(folders, Part::train), counts), "train");
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

std::vector<std::string> folders_in_each(const fs::path& root) {
  const std::vector<std::string> names = visible_folders(root);
  if (names.size() < 2) return {};
  std::vector<std::string> inner = visible_folders(root / names.front());
  const bool same = inner.size() >= 2 && std::ranges::all_of(names, [&](const std::string& name) {
                      return visible_folders(root / name) == inner;
                    });
  return same ? inner : std::vector<std::string>();
}

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

SplitFolders find_splits(const fs::path& root) try {
  const std::vector<std::string> names = folders_of_root(root);
  const Folders folders = candidates_in(root, names);
  const std::string train = train_among(root, folders, names.size() == 1);
  const std::string rest = named_folder(train).rest;
  const std::string test =
      test_among(root, those(folders, [&](const NamedFolder& folder) {
                   return train.empty() ? is_plain_test(folder) : folder.part != Part::train && folder.rest == rest;
                 }));
  SplitFolders splits;
  if (!train.empty()) splits.train = innermost(root / train);
  if (!test.empty()) splits.test = innermost(root / test);
  for (const std::string& name : names)
    if (name != train && name != test) splits.others.push_back(name);
  return splits;
} catch (const fs::filesystem_error& error) {
  refuse(error);
}

fs::path find_test_folder(const fs::path& root) try {
  const Folders folders = candidates_in(root, folders_of_root(root));
  const std::string test =
      test_among(root, those(folders, [](const NamedFolder& folder) { return folder.part != Part::train; }));
  return test.empty() ? fs::path() : innermost(root / test);
} catch (const fs::filesystem_error& error) {
  refuse(error);
}

}  // namespace octet
