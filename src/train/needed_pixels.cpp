#include "src/train/needed_pixels.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <cmath>

#include "src/models/detectors.h"
#include "src/models/models.h"
#include "src/weights/pixel_normalization.h"

namespace octet {
namespace {

// Half a step of 8-bit pixels, and the rounding of published numbers: 127 / 255 for 0.5.
constexpr float tolerance = 0.005f;

bool differ(const std::array<float, 3>& a, const std::array<float, 3>& b) {
  for (size_t c = 0; c < 3; ++c)
    if (std::abs(a[c] - b[c]) > tolerance) return true;
  return false;
}

}  // namespace

std::optional<NeededPixels> needed_pixels(const SafetensorsFile& file, const std::string& path,
                                          const Config::Model& model) {
  if (const auto own = read_normalization(file, path)) return NeededPixels{*own, "the file"};
  const Normalization* const published = published_normalization(model);
  if (published == nullptr) return {};
  return NeededPixels{*published,
                      "whoever published weights of " + (is_detector(model.name) ? model.backbone : model.name)};
}

std::string list_text(const std::array<float, 3>& numbers) { return fmt::format("[{}]", fmt::join(numbers, ", ")); }

void warn_of_other_pixels(const SafetensorsFile& file, const std::string& path, const Config& config) {
  const auto needed = needed_pixels(file, path, config.model);
  if (!needed) return;
  const Normalization has = normalization_of(config.data), &needs = needed->normalization;
  if (!differ(has.mean, needs.mean) && !differ(has.deviation, needs.deviation)) return;
  spdlog::warn(
      "{} was trained on pixels with data.mean: {} and data.deviation: {}, says {}; here they are {} and {}, which "
      "costs accuracy unless a long training follows",
      path, list_text(needs.mean), list_text(needs.deviation), needed->source, list_text(has.mean),
      list_text(has.deviation));
}

}  // namespace octet
