// Data sets of objects in COCO's and VOC's form.
#pragma once
#include "src/data/annotations/annotations.h"
#include "tests/data/support.h"

namespace octet {

inline void write_text(const std::filesystem::path& file, const std::string& text) {
  write_file(file, {text.begin(), text.end()});
}

inline Config config_of(const std::string& name, const std::filesystem::path& root) {
  Config config;
  config.data.name = name;
  config.data.root = root.string();
  return config;
}

// COCO's two annotation files in a folder of their own.
class CocoFolder {
 public:
  CocoFolder() { write_both(whole); }
  Config config() const { return config_of("coco", folder_.path()); }
  const std::filesystem::path& path() const { return folder_.path(); }
  void write(Split split, const std::string& json) const {
    write_text(path() / "annotations" / (split == Split::train ? "instances_train2017.json" : "instances_val2017.json"),
               json);
  }
  void write_both(const std::string& json) const {
    write(Split::train, json);
    write(Split::test, json);
  }
  // `whole` with a part of its text replaced.
  static std::string with(const std::string& part, const std::string& instead) {
    std::string text = whole;
    const size_t at = text.find(part);
    EXPECT_NE(at, text.npos) << part;
    return at == text.npos ? text : text.replace(at, part.size(), instead);
  }
  Annotations train() const { return read_annotations(config(), Split::train); }
  std::string refusal(const std::string& json) const {
    write(Split::train, json);
    return message_of<UsageError>([&] { train(); });
  }

  // The lists are in an unusual order, with members that are skipped.
  static constexpr const char* whole = R"({"info": {"a": [1, {"id": 1}]},
    "annotations": [
      {"id": 5, "image_id": 20, "category_id": 7, "bbox": [1.5, 2, 30, 40], "area": 900.5, "iscrowd": 0,
       "segmentation": [[1, 2, 3, 4, 5, 6]]},
      {"id": 6, "image_id": 10, "category_id": 3, "bbox": [0, 0, 10, 10], "area": 50, "iscrowd": 1,
       "segmentation": {"counts": [1, 2], "size": [3, 4], "id": 8}},
      {"id": 7, "image_id": 20, "category_id": 3, "bbox": [90, 70, 20, 20], "area": 300}],
    "categories": [{"id": 7, "name": "dog", "supercategory": "animal"}, {"id": 3, "name": "cat"}],
    "images": [{"id": 20, "file_name": "b.jpg", "width": 100, "height": 80, "license": 1},
               {"id": 10, "file_name": "a.jpg", "width": 50, "height": 40}]})";

 private:
  TemporaryFolder folder_;
};

}  // namespace octet
