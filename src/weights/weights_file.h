// A safetensors file as the weights of a network: octet's own, torchvision's or timm's.
#pragma once
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/weights/safetensors.h"

namespace octet {

// The name that a tensor of a detector has in the classification network of its backbone; empty if it is not part of
// it.
std::string name_in_backbone(std::string_view name);

// Opens a file of weights. UsageError: it is malformed, holds a value that is not finite, or was changed after octet
// wrote it.
SafetensorsFile open_weights(const std::string& path);

// Replaces `path` by a file of weights that other programs load: the ranges of activations are in its metadata, which
// also get the digest of the contents. FileError: it cannot be written; `path` is then unchanged.
void write_weights(const std::string& path, std::span<const NamedTensor> weights,
                   std::map<std::string, std::string> metadata);

// What became of the tensors of a file and of a network.
struct LoadedWeights {
  size_t loaded = 0;                      // tensors that were read from the file
  size_t converted = 0;                   // of them, those of another type than F32
  std::set<std::string> types = {};       // these other types
  std::vector<std::string> fresh = {};    // of the network: keep their initial values
  std::vector<std::string> missing = {};  // of the network: ranges of activations, which the first step measures
  std::vector<std::string> unused = {};   // of the file
  std::string text() const;               // one line
};

// In a checkpoint, in front of a tensor's name: the moving average of the tensor.
inline constexpr const char* average_prefix = "average.";
inline constexpr const char* square_prefix = "square.";  // of AdamW's means of squared gradients, in checkpoints

class WeightsFile {
 public:
  enum class Of : uint8_t { same_network, backbone };  // backbone: the classification network of a detector
  // category_ids: of the data's classes, by label, as in Annotations; empty if the data has none. Both references must
  // outlive the object.
  WeightsFile(const SafetensorsFile& file, const std::string& path, Of of, std::vector<int64_t> category_ids = {});

  // Called first, with the names of the network's parameters: finds what stands before each of them in the file, such
  // as "model." or "ema.module.". UsageError: the file holds the network several times, under different beginnings.
  void look_for(const std::vector<std::string>& parameters);

  // The file may hold a tensor under another name: in a wrapper such as DataParallel, of torchvision before version
  // 0.13, or timm's. A range may be a tensor, as in checkpoints and in files of earlier versions, or in the metadata.
  bool contains(const std::string& name) const { return file_.contains(name_in_file(name)) || ranges_.contains(name); }
  // Of a head of COCO's 91 categories these are the rows of the data's classes. UsageError: there is no such tensor, or
  // it has another shape; the message gives both shapes.
  std::vector<float> read(const std::string& name, const std::vector<int64_t>& shape);
  // The network's tensor `name` keeps its initial value, and the file's is not used.
  void leave(const std::string& name);
  // The range `name` of an activation is not in the file.
  void miss(const std::string& name) { report_.missing.push_back(name); }

  // Called at the end. UsageError: the file holds a tensor that the network lacks, and that no network of its kind
  // leaves out; the message names the first one. Tensors beside a wrapper that holds the network are not used.
  LoadedWeights finish();

 private:
  std::string name_in_file(const std::string& name) const;
  std::string own_name(const std::string& name) const { return of_ == Of::backbone ? name_in_backbone(name) : name; }
  bool may_be_unused(std::string_view name) const;
  std::vector<float> rows_of_classes(const std::string& name, const std::string& in_file,
                                     const std::vector<int64_t>& shape) const;

  const SafetensorsFile& file_;
  const std::string& path_;
  Of of_;
  std::vector<int64_t> category_ids_;
  std::map<std::string, std::string> names_;  // in the file, by the names without wrappers of layers
  std::string prefix_;                        // of the network's names in the file
  std::map<std::string, float> ranges_;       // those in the metadata
  std::set<std::string> read_, left_;
  LoadedWeights report_;
};

}  // namespace octet
