#include "src/weights/activation_ranges.h"

#include <spdlog/fmt/fmt.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "kernels/base/error.h"
#include "src/config/foreign_json.h"

namespace octet {
namespace {

constexpr const char* ranges_key = "activation_ranges";
constexpr const char* use_original = "use the file that the training wrote";

std::optional<float> from_hexadecimal(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.starts_with("0x")) text.remove_prefix(2);
  float value = 0;
  const char* const end = text.data() + text.size();
  const auto [behind, error] = std::from_chars(text.data(), end, value, std::chars_format::hex);
  if (error != std::errc() || behind != end) return {};
  return negative ? -value : value;
}

}  // namespace

bool is_range(std::string_view tensor) { return tensor.ends_with(".range"); }

std::vector<NamedTensor> move_ranges(std::span<const NamedTensor> tensors,
                                     std::map<std::string, std::string>& metadata) {
  std::vector<NamedTensor> others;
  auto ranges = nlohmann::ordered_json::object();
  for (const NamedTensor& tensor : tensors) {
    if (is_range(tensor.name) && tensor.values.size() == 1)
      ranges[tensor.name] = fmt::format("{:a}", tensor.values[0]);
    else
      others.push_back(tensor);
  }
  if (!ranges.empty()) metadata[ranges_key] = ranges.dump();
  return others;
}

std::vector<std::pair<std::string, float>> read_ranges(const SafetensorsFile& file, const std::string& path) {
  std::vector<std::pair<std::string, float>> ranges;
  const auto entry = file.metadata().find(ranges_key);
  if (entry == file.metadata().end()) return ranges;
  try {
    const auto stored = parse_foreign_json(entry->second, path, /*levels=*/1);
    for (const auto& [name, text] : stored.items()) {
      const std::optional<float> value = from_hexadecimal(text.get_ref<const std::string&>());
      REQUIRE_USAGE(value && is_range(name), use_original, path, ": `", ranges_key, "` has ", text.dump(), " for `",
                    name, "`");
      REQUIRE_USAGE(std::isfinite(*value), "use a checkpoint from before the training diverged", path, ": the range `",
                    name, "` is ", *value);
      ranges.emplace_back(name, *value);
    }
  } catch (const nlohmann::json::exception& error) {
    REQUIRE_USAGE(false, use_original, path, ": octet did not write its `", ranges_key, "`: ", error.what());
  }
  return ranges;
}

}  // namespace octet
