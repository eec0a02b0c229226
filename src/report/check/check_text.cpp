#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "kernels/base/error.h"
#include "src/report/check/check_parts.h"

namespace octet {

std::string check_row(const std::string& name, int64_t train, int64_t test) {
  return fmt::format("{:<32}{:>10}{:>10}\n", name, train, test);
}

std::string check_list(const std::string& title, const std::vector<std::string>& found) {
  constexpr size_t examples = 3;
  std::string text = fmt::format("{}: {}\n", title, found.size());
  for (size_t i = 0; i < std::min(found.size(), examples); ++i) text += "  " + found[i] + "\n";
  return text;
}

void warn_of_absent(const std::vector<std::string>& absent, size_t classes, DataCheck& check) {
  if (!absent.empty())
    check.warnings.push_back(fmt::format("the test set lacks {} of {} classes, which are not judged: {}", absent.size(),
                                         classes, joined(absent, ", ")));
}

void check_odd_images(const std::array<std::vector<std::string>, 2>& paths,
                      const std::array<std::vector<ImageFacts>, 2>& facts, DataCheck& check) {
  for (size_t s = 0; s < 2; ++s) {
    std::vector<std::string> misnamed, warned;
    for (size_t i = 0; i < facts[s].size(); ++i) {
      const ImageFacts& image = facts[s][i];
      if (!image.fault.empty()) continue;
      if (image.misnamed) misnamed.push_back(paths[s][i] + ": " + image.format);
      if (!image.warnings.empty()) warned.push_back(paths[s][i] + ": " + image.warnings.front());
    }
    check.page +=
        check_list(fmt::format("{}: named as another format, and read as what they are", split_names[s]), misnamed);
    check.page += check_list(fmt::format("{}: complete, but the decoder warns", split_names[s]), warned);
    if (!warned.empty())
      check.warnings.push_back(
          fmt::format("the decoder warns of {} images of {}: {}", warned.size(), split_names[s], warned.front()));
  }
}

void check_duplicates(const std::array<std::vector<std::string>, 2>& paths,
                      const std::array<std::vector<ImageFacts>, 2>& facts, DataCheck& check) {
  std::unordered_map<uint64_t, std::pair<size_t, size_t>> first;  // split and image, by hash
  std::vector<std::string> within, between;
  for (size_t s = 0; s < 2; ++s)
    for (size_t i = 0; i < facts[s].size(); ++i) {
      if (!facts[s][i].fault.empty()) continue;
      const auto [known, added] = first.try_emplace(facts[s][i].hash, s, i);
      if (added) continue;
      const auto& [other_split, other] = known->second;
      (other_split == s ? within : between).push_back(paths[other_split][other] + " = " + paths[s][i]);
    }
  check.page += check_list("the same image in both splits", between);
  check.page += check_list("the same image twice in a split", within);
  if (!between.empty())
    check.warnings.push_back(fmt::format(
        "{} images of test are images of train too: a network that has seen them is judged too well", between.size()));
}

}  // namespace octet
