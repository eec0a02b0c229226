#include "src/data/annotations/detections.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"
#include "src/config/yaml.h"
#include "src/data/annotations/annotations.h"
#include "src/data/annotations/json_lists.h"
#include "src/data/annotations/number_text.h"

namespace octet {
namespace {

using Kind = JsonField::Kind;

// Finds images or categories by their numbers and by their names.
class Names {
 public:
  explicit Names(bool text_ids) : text_ids_(text_ids) {}
  void add(int64_t id, const std::string& name, size_t index) {
    by_id_.emplace(id, index);
    by_name_.emplace(name, index);
  }
  void share(const std::string& name) { shared_.insert(name); }
  void add_name(const std::string& name, size_t index) { by_name_.emplace(name, index); }
  size_t find(const JsonValue& value, const std::string& place, const char* what) const {
    if (value.is_text) {
      const std::optional<int64_t> id = text_ids_ ? id_in(value.text) : std::nullopt;
      if (const auto found = id ? by_id_.find(*id) : by_id_.end(); found != by_id_.end()) return found->second;
      REQUIRE_USAGE(!shared_.contains(value.text), say("give the id of the ", what), place,
                    ": there are several of the ", "name `", shown(value.text), "`");
      const auto found = by_name_.find(value.text);
      REQUIRE_USAGE(found != by_name_.end(), fix, place, ": there is no ", what, " `", shown(value.text), "`");
      return found->second;
    }
    const auto found = by_id_.find(value.integer);
    REQUIRE_USAGE(found != by_id_.end(), fix, place, ": there is no ", what, " ", value.integer);
    return found->second;
  }

 private:
  static constexpr const char* fix = "judge detections on the data set that they were made for";
  std::unordered_map<int64_t, size_t> by_id_;
  std::unordered_map<std::string, size_t> by_name_;
  std::set<std::string> shared_;
  bool text_ids_;  // a text is an id before it is a name
};

std::string id_text(int64_t id, bool as_text) { return as_text ? say('"', id, '"') : std::to_string(id); }

// A name that several categories share means the one that has objects, if the others have none.
void add_shared_names(const Annotations& annotations, Names& categories) {
  std::vector<bool> has_objects(annotations.classes.size());
  for (const AnnotatedImage& image : annotations.images)
    for (const Object& object : image.objects) has_objects[size_t(object.label)] = true;
  std::map<std::string, std::vector<size_t>> sharing;
  for (size_t i = 0; i < annotations.classes.size(); ++i) {
    const std::string end = name_with_id("", annotations.category_ids[i]);
    if (const std::string& name = annotations.classes[i]; has_objects[i] && name.ends_with(end))
      sharing[name.substr(0, name.size() - end.size())].push_back(i);
  }
  for (const auto& [name, labels] : sharing)
    labels.size() == 1 ? categories.add_name(name, labels.front()) : categories.share(name);
}

}  // namespace

std::vector<Detection> read_detections(const std::string& file, const Annotations& annotations) {
  std::error_code failed;
  REQUIRE_USAGE(std::filesystem::is_regular_file(file, failed), "check the path", file, ": there is no such file");
  std::ifstream stream(file, std::ios::binary);
  REQUIRE_USAGE(stream.is_open(), "check the permissions", file, ": cannot be read");
  Names images(annotations.text_image_ids), categories(annotations.text_category_ids);
  for (size_t i = 0; i < annotations.images.size(); ++i)
    images.add(annotations.images[i].id, annotations.images[i].name, i);
  for (size_t i = 0; i < annotations.classes.size(); ++i)
    categories.add(annotations.category_ids[i], annotations.classes[i], i);
  add_shared_names(annotations, categories);
  std::vector<Detection> detections;
  const auto take = [&](int64_t index, std::vector<JsonValue>& values) {
    const std::string place = say(file, ": [", index, "]");
    const auto& [x, y, width, height] = values[2].box;
    REQUIRE_USAGE(std::ranges::all_of(values[2].box, [](double number) { return std::isfinite(number); }),
                  "leave the detection out", place, ".bbox: no finite numbers");
    REQUIRE_USAGE(std::isfinite(values[3].number), "leave the detection out", place, ".score: no finite number");
    REQUIRE_USAGE(width >= 0 && height >= 0, "write boxes as x, y, width, height", place, ".bbox: a size of ", width,
                  " x ", height);
    detections.push_back({.image = static_cast<int64_t>(images.find(values[0], place + ".image_id", "image")),
                          .label = static_cast<int32_t>(categories.find(values[1], place + ".category_id", "category")),
                          .score = values[3].number,
                          .box = {x, y, width, height}});
  };
  read_json_lists(
      stream, file,
      {{"",
        {{"image_id", Kind::name}, {"category_id", Kind::name}, {"bbox", Kind::box}, {"score", Kind::number}},
        take}});
  return detections;
}

void write_detections(const std::string& file, const Annotations& annotations, std::span<const Detection> detections) {
  std::string text = "[";
  for (const Detection& found : detections) {
    if (annotations.category_ids[static_cast<size_t>(found.label)] == no_category) continue;
    text += fmt::format(
        "{}\n{{\"image_id\": {}, \"category_id\": {}, \"bbox\": [{:.2f}, {:.2f}, {:.2f}, {:.2f}], \"score\": {}}}",
        text.size() > 1 ? "," : "",
        id_text(annotations.images[static_cast<size_t>(found.image)].id, annotations.text_image_ids),
        id_text(annotations.category_ids[static_cast<size_t>(found.label)], annotations.text_category_ids), found.box.x,
        found.box.y, found.box.width, found.box.height,
        static_cast<float>(found.score));  // as many digits as tell it from others
  }
  write_durably(file, text + "\n]\n");
}

}  // namespace octet
