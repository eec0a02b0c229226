#include "src/data/annotations/recognise.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
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

// Whether the file begins as COCO's do: other programs write JSON files too.
bool begins_as_coco(const fs::path& path) {
  std::string head(4096, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), std::ssize(head));
  return std::ranges::any_of(std::array{"\"images\"", "\"annotations\"", "\"categories\""},
                             [&](const char* key) { return head.find(key) != head.npos; });
}

// The folder of a split's images: "train2017" or "images/train" for train, else one of all images.
std::string images_of_split(const fs::path& root, const std::vector<const char*>& splits) {
  for (const std::string split : splits)
    for (const std::string& folder : {"images/" + split, split, split + "2017"})
      if (is_folder(root / folder)) return folder;
  return is_folder(root / "images") ? "images" : ".";
}

// COCO's files under any names, in the folder itself or in annotations/: one for each split, or one alone.
std::string recognise_coco(const fs::path& root, Config::Data& data) {
  const std::vector<const char*> train = {"train"}, test = {"valid", "val", "test"};
  for (const char* below : {"annotations", ""}) {
    std::vector<std::string> files = json_files_in(root, below);
    std::erase_if(files, [&](const std::string& file) { return !begins_as_coco(root / file); });
    std::ranges::sort(files);
    const auto of = [&](const std::vector<const char*>& splits) {
      for (const char* const split : splits)
        for (const std::string& file : files)
          if (fs::path(file).filename().string().find(split) != std::string::npos) return file;
      return std::string();
    };
    const std::string training = files.size() == 1 ? files.front() : of(train);
    if (training.empty()) continue;
    data.annotations = training;
    data.images = images_of_split(root, train);
    if (const std::string judged = of(test); !judged.empty() && judged != training)
      data.annotations_test = judged, data.images_test = images_of_split(root, test);
    return training;
  }
  return {};
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
  data.name = "coco";
  if (std::string found = recognise_coco(root, data); !found.empty()) return found;
  data.name = "yolo";  // without data.yaml: its reader says what to write
  for (const char* below : {"labels", "labels/train"}) {
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(root / below, failed))
      if (entry.path().extension() == ".txt") return say("text files in ", below);
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
