#include <algorithm>
#include <filesystem>
#include <vector>

#include "kernels/base/error.h"
#include "src/data/images/decode.h"
#include "src/data/images/open_image.h"
#include "src/data/sources/examine.h"
#include "src/data/sources/folder_index.h"
#include "src/data/sources/split_folders.h"
#include "src/report/check/recipe_advice.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> spread_paths(const FolderIndex& index, size_t most) {
  std::vector<std::string> paths;
  const size_t count = std::min(most, index.files.size());
  for (size_t i = 0; i < count; ++i)
    paths.push_back((index.folder / index.files[i * index.files.size() / count].first).string());
  return paths;
}

// The median of the shorter sides of some images, in pixels. 0: none of them has a readable header.
int64_t median_side(const FolderIndex& index, const Config::Data& data) {
  constexpr size_t headers_read = 200;
  std::vector<int64_t> sides;
  for (const std::string& path : spread_paths(index, headers_read)) try {
      const ImageSize size = open_image(path, data.max_pixels, View::upright).size;
      sides.push_back(std::min(size.width, size.height));
    } catch (const BadImage&) {  // examine() names it
    }
  if (sides.empty()) return 0;
  std::ranges::nth_element(sides, sides.begin() + ptrdiff_t(sides.size() / 2));
  return sides[sides.size() / 2];
}

// Decodes images of both splits, evenly spread, for some seconds of each core: all, if they are few or small.
void examine(const FolderSplits& splits, const Config::Data& data, FolderFacts& facts) {
  constexpr double pixels_of_core = 1e9;
  constexpr size_t least = 200;
  const double pixels = 1.5 * double(std::max<int64_t>(facts.side, 100)) * double(std::max<int64_t>(facts.side, 100));
  const size_t most = std::max(least, size_t(pixels_of_core * double(data.workers) / pixels));
  for (const FolderIndex* index : {&splits.train, &splits.test}) {
    const std::vector<std::string> paths = spread_paths(*index, most);
    const std::vector<ImageFacts> found = examine_images(paths, data);
    for (size_t i = 0; i < paths.size(); ++i)
      if (!found[i].fault.empty()) facts.bad.push_back(paths[i] + ": " + found[i].fault);
    facts.examined += int64_t(paths.size());
  }
}

}  // namespace

FolderFacts look_at_folder(const std::string& root, int cores) {
  Config::Data data;
  data.name = "image_folder";
  data.root = root;
  data.workers = cores;
  FolderFacts facts{.root = root};
  const SplitFolders folders = find_splits(root);
  facts.divided = folders.test.empty();
  if (facts.divided) data.holdout = kept_share;
  const FolderSplits splits = index_image_folder(data);
  REQUIRE_USAGE(splits.train.classes.size() > 1, "give two folders of classes or more", splits.train.folder.string(),
                ": the only class is ", splits.train.classes.front());
  if (!facts.divided)
    facts.splits = say(folders.train.filename().string(), "/ and ", folders.test.filename().string(), "/");
  facts.classes = int64_t(splits.train.classes.size());
  facts.names = splits.train.classes;
  facts.train = int64_t(splits.train.files.size());
  facts.test = int64_t(splits.test.files.size());
  std::vector<int64_t> of_class(splits.train.classes.size());
  for (const auto& [path, label] : splits.train.files) ++of_class[size_t(label)];
  facts.smallest_class = *std::ranges::min_element(of_class);
  facts.side = median_side(splits.train, data);
  examine(splits, data, facts);
  REQUIRE_USAGE(facts.side > 0, "give images that can be read", root,
                ": none of the images that were tried can be read: ", facts.bad.empty() ? "" : facts.bad.front());
  return facts;
}

}  // namespace octet
