#include "src/weights/pixel_normalization.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "src/config/foreign_json.h"
#include "src/data/images/normalization.h"
#include "src/data/sources/source.h"
#include "src/weights/recipe.h"

namespace octet {
namespace {

constexpr const char* normalization_key = "normalization";

std::optional<Normalization> of_recipe(const std::optional<Config>& recipe) {
  try {
    if (recipe) return normalization_of(recipe->data);
  } catch (const UsageError&) {  // of a version of octet with other data sources
  }
  return {};
}

}  // namespace

Normalization normalization_of(const Config::Data& data) { return normalization(data, source_traits(data).own); }

void add_normalization(const Normalization& of, std::map<std::string, std::string>& metadata) {
  metadata[normalization_key] =
      fmt::format(R"({{"mean": [{}], "deviation": [{}]}})", fmt::join(of.mean, ", "), fmt::join(of.deviation, ", "));
}

std::optional<Normalization> read_normalization(const SafetensorsFile& file, const std::string& path) {
  const auto& metadata = file.metadata();
  const auto entry = metadata.find(normalization_key);
  if (entry == metadata.end()) return of_recipe(find_recipe(file, path));
  Normalization of;
  const auto sound = [](float deviation) { return std::isfinite(deviation) && deviation > 0; };
  try {
    const auto json = parse_foreign_json(entry->second, path, /*levels=*/2);
    json.at("mean").get_to(of.mean);
    json.at("deviation").get_to(of.deviation);
    REQUIRE_USAGE(std::ranges::all_of(of.deviation, sound), "use the file that the training wrote", path,
                  ": a deviation in its `", normalization_key, "` is not above 0");
  } catch (const nlohmann::json::exception& error) {
    REQUIRE_USAGE(false, "use the file that the training wrote", path, ": octet did not write its `", normalization_key,
                  "`: ", error.what());
  }
  return of;
}

}  // namespace octet
