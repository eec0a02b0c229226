// The safetensors format (github.com/huggingface/safetensors): u64 header length, JSON header, data without gaps.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octet {

struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<const float> values;  // row-major; the product of the shape's extents
};
// Tensors with their values. Only moved, since the tensors refer to the values.
struct OwnedTensors {
  std::vector<NamedTensor> tensors;
  std::vector<std::vector<float>> values;
  OwnedTensors() = default;
  OwnedTensors(OwnedTensors&&) = default;
  OwnedTensors& operator=(OwnedTensors&&) = default;
  operator std::span<const NamedTensor>() const { return tensors; }
  void add(std::string name, std::vector<int64_t> shape, std::vector<float> of) {
    values.push_back(std::move(of));
    tensors.push_back({std::move(name), std::move(shape), values.back()});
  }
};

// Replaces `path` by a complete file (see DurableFile). FileError: it cannot be written; `path` is then unchanged.
void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata);

// A file in memory. open() checks the whole file, so its content is well-formed. The object needs about as much memory
// as the size of the file. Until the header has been checked against that size, it needs at most 100 MB.
class SafetensorsFile {
 public:
  // UsageError: the file is malformed; the message says how and names the tensor. FileError: the disk fails.
  static SafetensorsFile open(const std::string& path);

  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  std::vector<std::string> names() const;  // in the order of the data
  bool contains(const std::string& name) const { return index_.contains(name); }
  const std::vector<int64_t>& shape(const std::string& name) const { return find(name).shape; }
  const std::string& dtype(const std::string& name) const { return find(name).dtype; }  // "F32", "F16", ...
  // The values of an F32, F16, BF16 or F64 tensor, the last rounded to nearest. UsageError: it has another type.
  std::vector<float> floats(const std::string& name) const;
  // All F32 tensors, in the order of the data.
  std::vector<NamedTensor> f32_tensors() const;
  // UsageError: a tensor of floats holds a NaN or an infinity, as F32; the message names the first one.
  void require_finite() const;

 private:
  struct Entry {
    std::string name, dtype;
    std::vector<int64_t> shape;
    uint64_t begin = 0, end = 0;  // bytes of the data section
  };
  friend class HeaderReader;
  const Entry& find(const std::string& name) const;

  std::string path_;
  std::map<std::string, std::string> metadata_;
  std::vector<Entry> entries_;                // sorted by (begin, end)
  std::map<std::string_view, size_t> index_;  // keys refer to the names in entries_
  std::unique_ptr<std::byte[]> data_;
};

}  // namespace octet
