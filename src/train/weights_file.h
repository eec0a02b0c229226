// A safetensors file as the weights of a network: octet's own, or torchvision's.
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/train/safetensors.h"

namespace octet {

// The name that a tensor of a detector has in the classification network of its backbone; empty if it is not part of
// it.
std::string name_in_backbone(std::string_view name);

class WeightsFile {
 public:
  enum class Of : uint8_t { same_network, backbone };  // backbone: the classification network of a detector
  // category_ids: of the data's classes, by label, as in Annotations; empty if the data has none. Both references must
  // outlive the object.
  WeightsFile(const SafetensorsFile& file, const std::string& path, Of of, std::vector<int64_t> category_ids = {})
      : file_(file), path_(path), of_(of), category_ids_(std::move(category_ids)) {}

  // The file may hold a tensor under the name that torchvision gave it before version 0.13.
  bool contains(const std::string& name) const { return file_.contains(name_in_file(name)); }
  // Of a head of COCO's 91 categories these are the rows of the data's classes. UsageError: there is no such tensor, or
  // it has another shape; the message gives both shapes.
  std::vector<float> read(const std::string& name, const std::vector<int64_t>& shape);

  size_t loaded() const { return read_.size(); }                          // tensors that were read
  size_t ignored() const { return file_.names().size() - read_.size(); }  // the others of the file

 private:
  std::string name_in_file(const std::string& name) const;
  std::vector<float> rows_of_classes(const std::string& name, const std::string& in_file,
                                     const std::vector<int64_t>& shape) const;

  const SafetensorsFile& file_;
  const std::string& path_;
  Of of_;
  std::vector<int64_t> category_ids_;
  std::set<std::string> read_;
};

}  // namespace octet
