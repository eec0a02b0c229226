#include <algorithm>
#include <filesystem>
#include <vector>

#include "kernels/base/error.h"
#include "src/data/images/decode.h"
#include "src/data/images/open_image.h"
#include "src/data/sources/folder_index.h"
#include "src/report/check/recipe_advice.h"

namespace octet {

FolderFacts look_at_folder(const std::string& root) {
  namespace fs = std::filesystem;
  constexpr size_t headers_read = 200;
  Config::Data data;
  data.name = "image_folder";
  data.root = root;
  FolderFacts facts{.root = root};
  facts.divided = !fs::is_directory(fs::path(root) / "val") && !fs::is_directory(fs::path(root) / "test");
  if (facts.divided) data.holdout = kept_share;
  const FolderSplits splits = index_image_folder(data);
  facts.classes = int64_t(splits.train.classes.size());
  facts.train = int64_t(splits.train.files.size());
  facts.test = int64_t(splits.test.files.size());
  std::vector<int64_t> of_class(splits.train.classes.size());
  for (const auto& [path, label] : splits.train.files) ++of_class[size_t(label)];
  facts.smallest_class = *std::ranges::min_element(of_class);
  std::vector<int64_t> sides;
  const size_t step = std::max<size_t>(1, splits.train.files.size() / headers_read);
  for (size_t i = 0; i < splits.train.files.size(); i += step) try {
      const ImageSize size =
          open_image(splits.train.folder / splits.train.files[i].first, data.max_pixels, View::upright).size;
      sides.push_back(std::min(size.width, size.height));
    } catch (const BadImage&) {  // `octet check` names it
    }
  REQUIRE_USAGE(!sides.empty(), "look at them with `octet check`", root, " holds no image that can be read");
  std::ranges::nth_element(sides, sides.begin() + ptrdiff_t(sides.size() / 2));
  facts.side = sides[sides.size() / 2];
  return facts;
}

}  // namespace octet
