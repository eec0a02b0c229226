#include "src/weights/safetensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "kernels/base/durable_file.h"
#include "src/config/path_kind.h"

namespace octet {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian and is not converted");

namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeader = 100'000'000;  // the limit of the reference implementation
constexpr size_t kMaxEntries = 100'000;       // of tensors and of metadata; limits the memory that a header can require
constexpr size_t kMaxRank = 8;
constexpr const char* kDamaged = "the file is damaged or not a safetensors file: use another copy";

size_t bytes_of(const std::string& dtype) {  // size of one element; 0: unknown type
  static const std::map<std::string, size_t> sizes = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
                                                      {"I32", 4}, {"I16", 2}, {"I8", 1},  {"U64", 8},  {"U32", 4},
                                                      {"U16", 2}, {"U8", 1},  {"BOOL", 1}};
  const auto found = sizes.find(dtype);
  return found == sizes.end() ? 0 : found->second;
}

std::string shown(const std::string& name) { return name.size() <= 64 ? name : name.substr(0, 61) + "..."; }

// IEEE 754 binary16. Every value is a float.
float from_half(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent == 0) return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(float(fraction) * 0x1p-24f));
  const uint32_t own_exponent = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | own_exponent << 23 | fraction << 13);
}

// Whether a file that begins with these bytes is a .pth: a zip archive, or a pickle of protocol 2 as PyTorch wrote
// before version 1.6.
bool is_pickle(uint64_t first_bytes) {
  constexpr uint64_t zip = 0x04034b50, pickle = 0x0280;
  return (first_bytes & 0xffffffff) == zip || (first_bytes & 0xffff) == pickle;
}

// What helps where a directory is given for a file.
std::string file_to_name(const std::string& directory) {
  for (const char* const file : {"/best.safetensors", "/weights.safetensors"})
    if (std::error_code failed; std::filesystem::exists(directory + file, failed)) return say("name ", directory, file);
  return "name a .safetensors file in it";
}

// What helps where a file holds this value, which is not finite as F32.
const char* cure_of(float value, const std::string& dtype) {
  if (std::isinf(value) && dtype == "F16")
    return "convert the original weights to F32 or BF16: F16 ends at 65504, and a larger value becomes infinite in it";
  if (std::isinf(value) && dtype == "F64") return "use weights within F32, in which octet computes";
  return "use weights from before the training diverged";
}

// Values of type T, which may lie at any address.
template <class T, class Convert>
std::vector<float> read_as(const std::byte* from, size_t bytes, Convert convert) {
  std::vector<float> values(bytes / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    values[i] = convert(value);
  }
  return values;
}

// The product of the extents times the element size; empty when it overflows.
std::optional<uint64_t> bytes_of(const std::vector<int64_t>& shape, size_t element) {
  uint64_t bytes = element;
  bool empty = false, overflow = false;
  for (const int64_t extent : shape) {
    empty |= extent == 0;
    overflow |= __builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes);
  }
  if (empty) return 0;
  if (overflow) return std::nullopt;
  return bytes;
}

}  // namespace

// Reads the header event by event and builds no tree. So neither depth nor number of values costs memory.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(SafetensorsFile& file) : file_(file) {}

  bool start_object(size_t) override {
    ++depth_;
    require(depth_ <= 2 && !in_list_, "an unexpected object");
    if (depth_ == 2 && name_ != "__metadata__") {
      require(file_.entries_.size() < kMaxEntries, "more than 100,000 tensors");
      entry_ = {.name = name_, .dtype = "", .shape = {}};
      seen_.clear();
    }
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1 && name_ != "__metadata__") {
      require(seen_.size() == 3, say("tensor `", shown(name_), "` lacks dtype, shape or data_offsets"));
      file_.entries_.push_back(std::move(entry_));
    }
    return true;
  }
  bool key(std::string& text) override {
    if (depth_ == 1) {
      name_ = text;
      require(name_ != "__metadata__" || !std::exchange(metadata_read_, true), "`__metadata__` appears twice");
    } else if (name_ == "__metadata__") {
      field_ = text;
      require(file_.metadata_.size() < kMaxEntries, "more than 100,000 entries of metadata");
      require(!file_.metadata_.contains(text), say("metadata `", shown(text), "` appears twice"));
    } else {
      field_ = text;
      require(text == "dtype" || text == "shape" || text == "data_offsets",
              say("tensor `", shown(name_), "` has an unknown field `", shown(text), "`"));
      require(seen_.insert(text).second, say("tensor `", shown(name_), "` has `", text, "` twice"));
    }
    return true;
  }
  bool string(std::string& text) override {
    require(depth_ == 2 && !in_list_, "unexpected text");
    if (name_ == "__metadata__") {
      file_.metadata_.emplace(field_, text);
    } else {
      require(field_ == "dtype", say("tensor `", shown(name_), "`: `", field_, "` is not a list"));
      require(bytes_of(text) != 0, say("tensor `", shown(name_), "` has the unknown dtype `", shown(text), "`"));
      entry_.dtype = text;
    }
    return true;
  }
  bool start_array(size_t) override {
    require(depth_ == 2 && !in_list_ && name_ != "__metadata__" && field_ != "dtype", "an unexpected list");
    in_list_ = true;
    offsets_.clear();
    return true;
  }
  bool end_array() override {
    in_list_ = false;
    if (field_ == "data_offsets") {
      require(offsets_.size() == 2, say("tensor `", shown(name_), "` does not have two data_offsets"));
      entry_.begin = offsets_[0];
      entry_.end = offsets_[1];
    } else {
      entry_.shape.assign(offsets_.begin(), offsets_.end());
    }
    return true;
  }
  bool number_unsigned(uint64_t number) override {
    require(in_list_, "an unexpected number");
    require(number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) && offsets_.size() < kMaxRank,
            say("tensor `", shown(name_), "`: `", field_, "` is too large"));
    offsets_.push_back(number);
    return true;
  }
  bool number_integer(int64_t) override { return refuse("a negative number"); }
  bool number_float(double, const std::string&) override { return refuse("a number that is not an integer"); }
  bool boolean(bool) override { return refuse("a boolean"); }
  bool null() override { return refuse("a null"); }
  bool binary(json::binary_t&) override { return refuse("binary data"); }
  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    return refuse(say("invalid JSON at byte ", position));
  }

 private:
  void require(bool condition, const std::string& what) const {
    REQUIRE_USAGE(condition, kDamaged, "'", file_.path_, "': header: ", what);
  }
  bool refuse(const std::string& what) const {
    require(false, what);
    return false;
  }

  SafetensorsFile& file_;
  int depth_ = 0;
  bool in_list_ = false;
  std::string name_, field_;  // of the innermost value
  SafetensorsFile::Entry entry_;
  bool metadata_read_ = false;
  std::set<std::string> seen_;  // fields of entry_
  std::vector<uint64_t> offsets_;
};

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  SafetensorsFile file;
  file.path_ = path;
  const auto require = [&](bool condition, const auto&... what) {
    REQUIRE_USAGE(condition, kDamaged, "'", path, "': ", what...);
  };

  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(path, error);
  std::ifstream stream(regular ? path : "", std::ios::binary);  // opening a pipe would wait for its writer
  REQUIRE_USAGE(!std::filesystem::is_directory(path, error), file_to_name(path), "'", path,
                "' cannot be read as weights: it is ", name_of(kind_of_path(path)));
  REQUIRE_USAGE(stream.is_open(), "check the path and the permissions", "'", path, "' cannot be read");
  const uint64_t size = std::filesystem::file_size(path, error);
  uint64_t header_size = 0;
  require(!error && size >= 8, "shorter than 8 bytes");
  stream.read(reinterpret_cast<char*>(&header_size), 8);
  REQUIRE_USAGE(!is_pickle(header_size), "convert it with launch/convert-weights.py", "'", path,
                "' is a file of PyTorch, a pickle, which is a program; octet reads safetensors");
  require(header_size <= kMaxHeader, "header of ", header_size, " bytes, more than 100 MB");
  require(header_size >= 2 && header_size <= size - 8, "header of ", header_size, " bytes in a file of ", size);

  std::string header(header_size, '\0');
  stream.read(header.data(), static_cast<std::streamsize>(header_size));
  require(stream.good() && header[0] == '{', "the header is not a JSON object");
  require(header.find('\0') == std::string::npos, "a zero byte in the header");  // it would end the JSON parser's input
  HeaderReader reader(file);
  json::sax_parse(header, &reader);
  header = {};

  std::stable_sort(file.entries_.begin(), file.entries_.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  const uint64_t data_size = size - 8 - header_size;
  uint64_t end = 0;
  for (const Entry& entry : file.entries_) {
    const auto bytes = bytes_of(entry.shape, bytes_of(entry.dtype));
    require(entry.begin == end && entry.end >= entry.begin && entry.end <= data_size, "tensor `", shown(entry.name),
            "` at bytes ", entry.begin, " to ", entry.end, " overlaps another, leaves a gap or exceeds the ", data_size,
            " bytes of data");
    require(bytes && *bytes == entry.end - entry.begin, "tensor `", shown(entry.name), "` has ",
            entry.end - entry.begin, " bytes, which does not match its shape and dtype");
    end = entry.end;
    require(file.index_.emplace(entry.name, file.index_.size()).second, "tensor `", shown(entry.name),
            "` appears twice");
  }
  require(end == data_size, "the tensors end at byte ", end, " of ", data_size, " bytes of data");

  try {
    file.data_ = std::make_unique_for_overwrite<std::byte[]>(data_size);
  } catch (const std::bad_alloc&) {
    REQUIRE(false, "use a machine with more memory", "'", path, "': not enough memory for its ", data_size, " bytes");
  }
  stream.read(reinterpret_cast<char*>(file.data_.get()), static_cast<std::streamsize>(data_size));
  if (!stream.good())
    throw FileError(__FILE__, __LINE__,
                    say("'", path, "': input/output error after ", stream.gcount(), " bytes of data"),
                    "check the disk and its file system");
  return file;
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  return names;
}

const SafetensorsFile::Entry& SafetensorsFile::find(const std::string& name) const {
  const auto found = index_.find(name);
  REQUIRE(found != index_.end(), "use a file of the same model", "'", path_, "' has no tensor `", name, "`");
  return entries_[found->second];
}

std::vector<float> SafetensorsFile::floats(const std::string& name) const {
  const Entry& entry = find(name);
  const std::byte* const bytes = data_.get() + entry.begin;
  const size_t size = entry.end - entry.begin;
  if (entry.dtype == "F32") return read_as<float>(bytes, size, std::identity{});
  if (entry.dtype == "F64") return read_as<double>(bytes, size, [](double value) { return static_cast<float>(value); });
  if (entry.dtype == "F16") return read_as<uint16_t>(bytes, size, from_half);
  if (entry.dtype == "BF16")
    return read_as<uint16_t>(bytes, size, [](uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); });
  REQUIRE_USAGE(false, "convert it to F32, F16 or BF16", "'", path_, "': tensor `", entry.name, "` is ", entry.dtype,
                ", no floating-point type of weights");
  return {};
}

std::vector<NamedTensor> SafetensorsFile::f32_tensors() const {
  std::vector<NamedTensor> tensors;
  for (const Entry& entry : entries_) {
    if (entry.dtype != "F32") continue;
    REQUIRE_USAGE(entry.begin % alignof(float) == 0, "write the file with the larger types first", "'", path_,
                  "': tensor `", entry.name, "` is not aligned");
    const auto* const values = reinterpret_cast<const float*>(data_.get() + entry.begin);
    tensors.push_back({entry.name, entry.shape, {values, (entry.end - entry.begin) / sizeof(float)}});
  }
  return tensors;
}

void SafetensorsFile::require_finite() const {
  for (const Entry& entry : entries_) {
    if (!entry.dtype.starts_with('F') && entry.dtype != "BF16") continue;
    const std::vector<float> values = floats(entry.name);
    for (size_t i = 0; i < values.size(); ++i)
      REQUIRE_USAGE(std::isfinite(values[i]), cure_of(values[i], entry.dtype), "'", path_, "': tensor `", entry.name,
                    "` holds ", values[i], " at element ", i, ", of ", entry.dtype);
  }
}

void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const auto quoted = [](const std::string& text) { return json(text).dump(); };
  std::string header = "{\"__metadata__\":" + json(metadata).dump();
  std::set<std::string> names{"__metadata__"};
  uint64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    const bool negative =
        std::any_of(tensor.shape.begin(), tensor.shape.end(), [](int64_t extent) { return extent < 0; });
    REQUIRE(!negative && tensor.shape.size() <= kMaxRank && bytes_of(tensor.shape, 4) == tensor.values.size_bytes(),
            "give each tensor the values of its shape", "'", path, "': tensor `", tensor.name, "` has ",
            tensor.values.size(), " values, which does not match its shape");
    REQUIRE(names.insert(tensor.name).second, "name each tensor once", "'", path, "': tensor `", tensor.name,
            "` twice");
    header += say(",", quoted(tensor.name), ":{\"dtype\":\"F32\",\"shape\":", json(tensor.shape).dump(),
                  ",\"data_offsets\":[", offset, ",", offset + tensor.values.size_bytes(), "]}");
    offset += tensor.values.size_bytes();
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');  // pads the header, so that the data is aligned to 8 bytes
  const uint64_t header_size = header.size();
  DurableFile file(path);
  file.write(std::as_bytes(std::span(&header_size, 1)));
  file.write(header);
  for (const NamedTensor& tensor : tensors) file.write(std::as_bytes(tensor.values));
  file.commit();
}

}  // namespace octet
