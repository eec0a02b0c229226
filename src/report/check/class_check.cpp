#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "kernels/base/error.h"
#include "src/data/images/image_files.h"
#include "src/data/sources/folder_index.h"
#include "src/data/sources/split_folders.h"
#include "src/report/check/check_parts.h"

namespace octet {
namespace {

struct Folders {
  std::array<FolderIndex, 2> splits;
  std::array<std::vector<std::string>, 2> paths;
  std::array<std::vector<ImageFacts>, 2> facts;
};

Folders read_folders(const Config& config) {
  auto [train, test] = index_image_folder(config.data);
  Folders folders{{std::move(train), std::move(test)}, {}, {}};
  for (size_t s = 0; s < 2; ++s) {
    for (const auto& [name, label] : folders.splits[s].files)
      folders.paths[s].push_back((folders.splits[s].folder / name).string());
    folders.facts[s] = examine_images(folders.paths[s], config.data);
  }
  return folders;
}

// The number of images of both splits for which `counts` is true.
template <class Counts>
std::string image_row(const std::string& name, const Folders& folders, Counts counts) {
  std::array<int64_t, 2> number{};
  for (size_t s = 0; s < 2; ++s)
    for (size_t i = 0; i < folders.facts[s].size(); ++i)
      number[s] += counts(folders.facts[s][i], folders.splits[s].files[i].second);
  return check_row(name, number[0], number[1]);
}

bool readable(const ImageFacts& facts) { return facts.fault.empty(); }

std::string absent_text(const FolderIndex& test) {
  const std::vector<std::string> absent = absent_classes(test);
  return absent.empty() ? std::string()
                        : fmt::format("classes without images in {}: {}: {}\n", split_names[1], absent.size(),
                                      joined(absent, ", "));
}

// Folders that may have been meant as splits. Without a folder for training, all of them are classes.
std::string unread_folders(const Config::Data& data) {
  const SplitFolders splits = find_splits(data.root);
  if (splits.train.empty() || splits.others.empty()) return {};
  return fmt::format("folders in data.root that are not read: {}: {}\n", splits.others.size(),
                     joined(splits.others, ", "));
}

std::string counts_of(const Folders& folders) {
  std::string text = fmt::format("{:<32}{:>10}{:>10}\n", "", split_names[0], split_names[1]);
  text += image_row("images", folders, [](auto&, int) { return true; });
  text += image_row("images that can be read", folders, [](auto& facts, int) { return readable(facts); });
  std::map<std::string, int> formats;
  for (const auto& facts : folders.facts)
    for (const ImageFacts& image : facts)
      if (readable(image)) ++formats[image.format];
  for (const auto& [name, number] : formats)
    text += image_row("  " + name, folders,
                      [&, format = name](auto& facts, int) { return readable(facts) && facts.format == format; });
  text += image_row("turned upright, as EXIF says", folders,
                    [](auto& facts, int) { return readable(facts) && facts.header.orientation != 1; });
  text += "\nimages that can be read, by class\n";
  const std::vector<std::string>& classes = folders.splits[0].classes;
  for (size_t label = 0; label < classes.size(); ++label)
    text += image_row("  " + classes[label], folders,
                      [&](auto& facts, int of) { return readable(facts) && of == static_cast<int>(label); });
  return text + absent_text(folders.splits[1]);
}

// Why images cannot be read, and what octet does with them.
std::string bad_images(const Folders& folders, const Config& config, DataCheck& check) {
  constexpr struct {
    ImageFault fault;
    const char* name;
  } kinds[] = {{ImageFault::unreadable, "no readable file"},
               {ImageFault::empty, "no bytes"},
               {ImageFault::other_format, "of a format that octet does not read"},
               {ImageFault::too_large, "larger than data.max_pixels"},
               {ImageFault::damaged, "damaged or cut off"}};
  const bool stops = config.data.bad_images == "stop";
  std::string text = "\nfiles\n";
  for (size_t s = 0; s < 2; ++s) {
    size_t all = 0;
    for (const auto& [fault, name] : kinds) {
      std::vector<std::string> found;
      for (size_t i = 0; i < folders.facts[s].size(); ++i) {
        const ImageFacts& facts = folders.facts[s][i];
        if (!readable(facts) && facts.kind == fault) found.push_back(folders.paths[s][i] + ": " + facts.fault);
      }
      all += found.size();
      if (!found.empty())
        text +=
            check_list(fmt::format("{}: {}, {}", split_names[s], name, stops ? "stops a training" : "skipped"), found);
    }
    if (all > 0 && stops)
      check.errors.push_back(fmt::format(
          "{} images of {} cannot be read: repair or remove them, or set data.bad_images: skip", all, split_names[s]));
    if (all > 0 && !stops)
      check.warnings.push_back(fmt::format("{} images of {} cannot be read, and are skipped", all, split_names[s]));
  }
  return text;
}

std::string ignored_files(const Folders& folders, const Config::Data& data) {
  std::string text;
  for (size_t s = 0; s < 2; ++s)
    text += fmt::format("{}: {}\n", split_names[s], ignored_text(folders.splits[s].ignored));
  return text + unread_folders(data);
}

// Classes of which no image can be read for training.
void check_classes_left(const Folders& folders, DataCheck& check) {
  std::vector<bool> there(folders.splits[0].classes.size());
  for (size_t i = 0; i < folders.facts[0].size(); ++i)
    if (readable(folders.facts[0][i])) there[static_cast<size_t>(folders.splits[0].files[i].second)] = true;
  std::vector<std::string> lost;
  for (size_t label = 0; label < there.size(); ++label)
    if (!there[label]) lost.push_back(folders.splits[0].classes[label]);
  if (lost.empty() || lost.size() == there.size()) return;  // check_sizes() says that all are lost
  const std::string text = "no image of train can be read of: " + joined(lost, ", ");
  (there.size() - lost.size() < 2 ? check.errors : check.warnings).push_back(text);
}

void check_sizes(const Folders& folders, const Config& config, std::vector<std::string>& errors) {
  const auto classes = static_cast<int64_t>(folders.splits[0].classes.size());
  const auto train = static_cast<int64_t>(folders.facts[0].size());
  if (classes < 2) errors.emplace_back("one class is nothing to learn: give two folders of classes or more");
  if (config.model.classes != classes)
    errors.push_back(fmt::format("model.classes is {}, but there are {} classes: set model.classes to {}",
                                 config.model.classes, classes, classes));
  if (train < config.data.batch)
    errors.push_back(fmt::format("data.batch is {}, but there are {} training images: set data.batch to at most {}",
                                 config.data.batch, train, train));
  for (size_t s = 0; s < 2; ++s)
    if (std::ranges::none_of(folders.facts[s], readable))
      errors.push_back(fmt::format("no image of {} can be read", split_names[s]));
}

}  // namespace

DataCheck check_image_folder(const Config& config) {
  DataCheck check;
  try {
    const Folders folders = read_folders(config);
    for (const FolderIndex& split : folders.splits)
      check.warnings.insert(check.warnings.end(), split.doubts.begin(), split.doubts.end());
    check.page =
        fmt::format("{}: {} classes in {}\n", config.data.name, folders.splits[0].classes.size(), config.data.root);
    check.page +=
        fmt::format("train: {}\ntest: {}\n\n", folders.splits[0].folder.string(), folders.splits[1].folder.string());
    check.page += counts_of(folders) + bad_images(folders, config, check);
    check_odd_images(folders.paths, folders.facts, check);
    check.page += ignored_files(folders, config.data);
    warn_of_absent(absent_classes(folders.splits[1]), folders.splits[0].classes.size(), check);
    check_duplicates(folders.paths, folders.facts, check);
    check_sizes(folders, config, check.errors);
    check_classes_left(folders, check);
  } catch (const Error& error) {  // of the folders themselves
    check.errors.emplace_back(error.what());
  }
  return check;
}

}  // namespace octet
