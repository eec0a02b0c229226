// COCO's annotations of objects: one JSON file for each split.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

#include "kernels/base/error.h"
#include "src/config/yaml.h"
#include "src/data/annotations/annotation_files.h"
#include "src/data/annotations/json_lists.h"

namespace octet {
namespace {

namespace fs = std::filesystem;
using Kind = JsonField::Kind;

// As the file has it. Its image and its category may follow later in the file.
struct Annotation {
  int64_t image = 0, category = 0;
  Object object;
};
struct Category {
  int64_t id = 0;
  std::string name;
};
struct Contents {
  std::vector<AnnotatedImage> images;
  std::vector<Annotation> annotations;
  std::vector<Category> categories;
  int64_t without_area = 0;
  std::vector<std::string> odd_sizes;
  bool text_image_ids = false, text_category_ids = false;
};

Contents contents_of(std::istream& stream, const std::string& file) {
  Contents contents;
  const auto take_image = [&](int64_t index, std::vector<JsonValue>& values) {
    const AnnotatedSize size = annotated_size(values[2].number, values[3].number);
    if (!size.odd.empty()) contents.odd_sizes.push_back(say(size.odd, " of images[", index, "]"));
    contents.text_image_ids |= values[0].is_text;
    const std::string name = values[1].text;
    contents.images.push_back({.id = values[0].integer,
                               .name = name,
                               .path = std::move(values[1].text),
                               .width = size.width,
                               .height = size.height,
                               .objects = {}});
  };
  const auto take_annotation = [&](int64_t, std::vector<JsonValue>& values) {
    const auto& [x, y, width, height] = values[3].box;
    contents.without_area += values[4].present ? 0 : 1;
    contents.annotations.push_back({.image = values[1].integer,
                                    .category = values[2].integer,
                                    .object = {.id = values[0].integer,
                                               .box = {x, y, width, height},
                                               .area = values[4].present ? values[4].number : width * height,
                                               .crowd = values[5].integer != 0}});
  };
  const auto take_category = [&](int64_t, std::vector<JsonValue>& values) {
    contents.text_category_ids |= values[0].is_text;
    contents.categories.push_back({values[0].integer, std::move(values[1].text)});
  };
  read_json_lists(
      stream, file,
      {{"images",
        {{"id"}, {"file_name", Kind::text}, {"width", Kind::number, false}, {"height", Kind::number, false}},
        take_image},
       {"annotations",
        {{"id"},
         {"image_id"},
         {"category_id"},
         {"bbox", Kind::box},
         {"area", Kind::number, false},
         {"iscrowd", Kind::flag, false}},
        take_annotation},
       {"categories", {{"id"}, {"name", Kind::label}}, take_category}});
  return contents;
}

// Indices of `items` by rising id. UsageError: an id is there twice.
template <class Item, class Id>
std::vector<uint32_t> by_id(const std::vector<Item>& items, Id id, const char* list, const std::string& file) {
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](uint32_t i) { return std::pair(id(items[i]), i); });
  for (size_t i = 1; i < order.size(); ++i)
    REQUIRE_USAGE(id(items[order[i - 1]]) != id(items[order[i]]), "give each an id of its own", file, ": ", list, "[",
                  order[i - 1], "] and ", list, "[", order[i], "] have the same id ", id(items[order[i]]));
  return order;
}

// "3, 7, 12 and 5 more"
std::string listed(std::vector<int64_t> ids) {
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(ids.size(), 10); ++i) text += say(i == 0 ? "" : ", ", ids[i]);
  return ids.size() > 10 ? say(text, " and ", ids.size() - 10, " more") : text;
}

// Puts each annotation into its image, with the label of its category.
void join(Contents contents, const std::vector<int64_t>& category_ids, std::vector<AnnotatedImage>& images,
          const std::string& file) {
  const std::vector<uint32_t> order = by_id(
      contents.images, [](const auto& image) { return image.id; }, "images", file);
  std::vector<int64_t> unknown_images, unknown_categories;
  const auto id_at = [&](uint32_t i) { return contents.images[i].id; };
  for (Annotation& annotation : contents.annotations) {
    const auto image = std::ranges::lower_bound(order, annotation.image, {}, id_at);
    const auto category = std::ranges::lower_bound(category_ids, annotation.category);
    const bool known_image = image != order.end() && id_at(*image) == annotation.image;
    const bool known_category = category != category_ids.end() && *category == annotation.category;
    if (!known_image) unknown_images.push_back(annotation.image);
    if (!known_category) unknown_categories.push_back(annotation.category);
    if (!known_image || !known_category) continue;
    annotation.object.label = static_cast<int32_t>(category - category_ids.begin());
    contents.images[*image].objects.push_back(annotation.object);
  }
  REQUIRE_USAGE(unknown_categories.empty(), "add them to `categories`", file, ": ", unknown_categories.size(),
                " annotations are of categories that the file does not list: ", listed(unknown_categories));
  REQUIRE_USAGE(unknown_images.empty(), "add them to `images`", file, ": ", unknown_images.size(),
                " annotations are on images that the file does not list: ", listed(unknown_images));
  images = std::move(contents.images);
}

}  // namespace

Annotations parse_coco(std::istream& stream, const std::string& file) {
  Contents contents = contents_of(stream, file);
  const auto id_of = [](const Annotation& annotation) { return annotation.object.id; };
  by_id(contents.annotations, id_of, "annotations", file);  // refuses ids that are there twice
  Annotations annotations;
  if (std::ranges::find(contents.annotations, 0, id_of) != contents.annotations.end())
    annotations.doubts.push_back(
        say(file, ": an annotation has id 0. COCO's own evaluation never counts it as found; octet does"));
  if (contents.without_area > 0)
    annotations.doubts.push_back(
        say(file, ": ", contents.without_area, " annotations have no `area`; width * height of their boxes is used"));
  doubt_sizes(file, contents.odd_sizes, annotations);
  annotations.text_image_ids = contents.text_image_ids;
  annotations.text_category_ids = contents.text_category_ids;
  for (const uint32_t i : by_id(
           contents.categories, [](const auto& category) { return category.id; }, "categories", file)) {
    annotations.category_ids.push_back(contents.categories[i].id);
    annotations.classes.push_back(contents.categories[i].name);
  }
  REQUIRE_USAGE(!annotations.classes.empty(), "list the classes of the objects", file, ": `categories` is empty");
  tell_apart(annotations.classes, annotations.category_ids);
  join(std::move(contents), annotations.category_ids, annotations.images, file);
  return annotations;
}

fs::path coco_file(const Config::Data& data, Split split) {
  const bool training = split == Split::train;
  const std::string& given = training ? data.annotations : data.annotations_test;
  const char* const instead = training ? "annotations/instances_train2017.json" : "annotations/instances_val2017.json";
  return fs::path(data.root) / (given.empty() ? instead : given);
}

bool coco_judges(const Config::Data& data) {
  std::error_code failed;
  return !data.annotations_test.empty() || fs::is_regular_file(coco_file(data, Split::test), failed);
}

Annotations read_coco(const Config::Data& data, Split split) {
  const bool training = split == Split::train;
  const std::string& images = training ? data.images : data.images_test;
  const fs::path file = coco_file(data, split);
  const fs::path folder = fs::path(data.root) / (!images.empty() ? images : training ? "train2017" : "val2017");
  const char* const key = training ? "data.annotations" : "data.annotations_test";
  std::error_code failed;
  REQUIRE_USAGE(fs::is_regular_file(file, failed), say("check data.root, or set ", key), file.string(),
                ": there is no such file");
  REQUIRE_USAGE(fs::file_size(file, failed) > 0, "fetch the file again", file.string(), ": a file of 0 bytes");
  std::vector<char> buffer(1 << 20);
  std::ifstream stream;
  stream.rdbuf()->pubsetbuf(buffer.data(), static_cast<std::streamsize>(buffer.size()));
  stream.open(file, std::ios::binary);
  REQUIRE_USAGE(stream.is_open(), "check the permissions", file.string(), ": cannot be read");
  Annotations annotations = parse_coco(stream, file.string());
  std::map<std::string_view, int64_t> seen;
  for (size_t i = 0; i < annotations.images.size(); ++i) {
    AnnotatedImage& image = annotations.images[i];
    const auto [before, added] = seen.emplace(image.name, i);
    REQUIRE_USAGE(added, "list each image once", file.string(), ": images[", before->second, "] and images[", i,
                  "] have the same file_name ", shown(image.name));
    image.path = path_inside(folder, image.name, say(file.string(), ": images[", i, "].file_name"));
  }
  return annotations;
}

}  // namespace octet
