// The safetensors format (github.com/huggingface/safetensors): u64 header length, JSON header, data without holes.
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
  std::span<const float> values;  // row-major; as many as the shape says
};

// Replaces `path` by a complete file (DurableFile) or leaves it as it was. FileError: the disk refused.
void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata);

// A file read and checked in full: whatever open() returns is well-formed. Memory: about the file's size, and
// never more than 100 MB before the sizes in the header are known to agree with the file's.
class SafetensorsFile {
 public:
  // Error: what is wrong with the file, with the tensor's name.
  static SafetensorsFile open(const std::string& path);

  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  std::vector<std::string> names() const;  // in the order of the data
  bool contains(const std::string& name) const;
  const std::vector<int64_t>& shape(const std::string& name) const;
  // Valid as long as this object. Error: no such tensor, or another type.
  std::span<const float> f32(const std::string& name) const;
  // Every F32 tensor, in the order of the data.
  std::vector<NamedTensor> f32_tensors() const;
  // Error with the name of the first F32 tensor that holds a NaN or an infinity.
  void require_finite() const;

 private:
  struct Entry {
    std::string name, dtype;
    std::vector<int64_t> shape;
    uint64_t begin = 0, end = 0;  // bytes of the data section
  };
  friend class HeaderReader;
  const Entry& find(const std::string& name) const;
  std::span<const float> values(const Entry&) const;

  std::string path_;
  std::map<std::string, std::string> metadata_;
  std::vector<Entry> entries_;                // sorted by (begin, end)
  std::map<std::string_view, size_t> index_;  // by the names in entries_
  std::unique_ptr<std::byte[]> data_;
};

}  // namespace octet
