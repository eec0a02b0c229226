#include "src/data/annotations/recognise.h"

#include <filesystem>
#include <vector>

#include "kernels/base/error.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code failed;
  return fs::is_regular_file(path, failed);
}
bool is_folder(const fs::path& path) {
  std::error_code failed;
  return fs::is_directory(path, failed);
}

// The names of the JSON files in root / below.
std::vector<std::string> json_files_in(const fs::path& root, const char* below) {
  std::vector<std::string> files;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(root / below, failed))
    if (entry.path().extension() == ".json") files.push_back((below / entry.path().filename()).string());
  return files;
}

}  // namespace

std::string recognise_annotations(const std::string& folder, Config::Data& data) {
  const fs::path root = fs::absolute(folder);
  data.root = root.string();
  for (const char* file : {"data.yaml", "data.yml", "dataset.yaml"})
    if (is_file(root / file)) return data.name = "yolo", file;
  data.name = "coco";
  if (is_file(root / "annotations" / "instances_train2017.json")) return "annotations/instances_train2017.json";
  const char* const export_file = "_annotations.coco.json";
  for (const char* test : {"valid", "val", "test"})
    if (is_file(root / "train" / export_file) && is_file(root / test / export_file)) {
      data.annotations = say("train/", export_file), data.images = "train";
      data.annotations_test = say(test, "/", export_file), data.images_test = test;
      return data.annotations;
    }
  if (is_file(root / "train" / export_file))
    return data.annotations = say("train/", export_file), data.images = "train", data.annotations;
  data.name = "voc";
  for (const char* below : {"", "VOC2007", "VOC2012"})
    if (is_folder(root / below / "ImageSets" / "Main")) return (fs::path(below) / "ImageSets/Main").string();
  for (const char* below : {"Annotations", "annotations", "xml", "labels", ""}) {
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(root / below, failed))
      if (entry.path().extension() == ".xml") return say("XML files in ", *below ? below : "the folder");
  }
  return {};
}

std::string recognise_annotations_to_judge(const std::string& folder, Config::Data& data) {
  if (std::string found = recognise_annotations(folder, data); !found.empty()) return found;
  const fs::path root = data.root;
  data.name = "coco";
  if (const char* const file = "annotations/instances_val2017.json"; is_file(root / file)) return file;
  for (const char* below : {"", "annotations"}) {
    const std::vector<std::string> files = json_files_in(root, below);
    if (files.size() != 1) continue;
    data.annotations_test = files.front();
    data.images_test = is_folder(root / "images") ? "images" : ".";
    return data.annotations_test;
  }
  return {};
}

}  // namespace octet
