#include "src/data/augment/augmentation.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/error.h"
#include "kernels/shared/math.h"
#include "src/data/augment/randaugment.h"
#include "src/data/draws.h"
#include "src/data/images/pixel_bytes.h"

namespace octet {

void Augmentation::change(const Picture& picture, uint64_t seed, int64_t epoch, int64_t index) const {
  Draws draws(seed, epoch, DrawStream::randaugment, index);
  randaugment(draws, keys_.randaugment, keys_.magnitude, picture);
  if (!keys_.color_jitter.empty()) jitter_colors(picture, seed, epoch, index);
}

// As torchvision.transforms.ColorJitter: in random order; factors from 1 - j to 1 + j, hues from -j to j of a turn.
void Augmentation::jitter_colors(const Picture& picture, uint64_t seed, int64_t epoch, int64_t index) const {
  Draws draws(seed, epoch, DrawStream::color_jitter, index);
  std::array<size_t, 4> order{0, 1, 2, 3};
  for (uint32_t i = 3; i > 0; --i) std::swap(order[i], order[draws.below(i + 1)]);
  std::array<float, 4> shares{};
  std::ranges::copy(keys_.color_jitter, shares.begin());
  for (float& share : shares) share = draws.uniform(-share, share);
  constexpr void (*changes[])(const Picture&, float) = {change_brightness, change_contrast, change_color};
  for (const size_t which : order) {
    if (shares[which] == 0) continue;
    if (which == 3)
      turn_hue(picture, static_cast<int>(shares[which] * 255));
    else
      changes[which](picture, 1 + shares[which]);
  }
}

// As torchvision.transforms.RandomErasing: 2 % to 33 % of the area, ratio 0.3 to 3.3. Ten tries.
void Augmentation::erase(uint8_t* pixels, int64_t height, int64_t width, uint64_t seed, int64_t epoch,
                         int64_t index) const {
  if (keys_.erasing == 0) return;
  Draws draws(seed, epoch, DrawStream::erasing, index);
  if (!draws.chance(static_cast<float>(keys_.erasing))) return;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = static_cast<double>(height * width) * draws.uniform(0.02f, 0.33f);
    const double ratio = exponential(draws.uniform(-1.2039728f, 1.1939225f));  // 0.3 to 3.3
    const int64_t h = std::lround(std::sqrt(area * ratio)), w = std::lround(std::sqrt(area / ratio));
    if (h >= height || w >= width) continue;
    const int64_t top = draws.below(static_cast<uint32_t>(height - h + 1)),
                  left = draws.below(static_cast<uint32_t>(width - w + 1));
    for (int64_t y = top; y < top + h; ++y) write_no_pixels(w, pixels + (y * width + left) * pixel_channels);
    return;
  }
}

void check_augmentation(const Config& config, bool has_objects) {
  const Config::Augment& keys = config.augment;
  const auto refuse = [&](const char* key, bool used, const char* lacks) {
    REQUIRE_USAGE(!used, say("leave ", key, " out"), key, " is set, but '", config.data.name, "' has ", lacks);
  };
  const char* const classes = "objects, and no class of a whole image";
  refuse("data.balanced", has_objects && config.data.balanced, classes);
  refuse("augment.mixup", has_objects && keys.mixup > 0, classes);
  refuse("augment.cutmix", has_objects && keys.cutmix > 0, classes);
  refuse("augment.mosaic", !has_objects && keys.mosaic > 0, "no objects");
  const bool drawn = config.data.name == "synthetic";
  const char* const pictures = drawn ? "no pictures" : classes;
  refuse("augment.randaugment", (has_objects || drawn) && keys.randaugment > 0, pictures);
  refuse("augment.color_jitter", (has_objects || drawn) && !keys.color_jitter.empty(), pictures);
  refuse("augment.erasing", (has_objects || drawn) && keys.erasing > 0, pictures);
  const size_t numbers = keys.color_jitter.size();
  REQUIRE_USAGE(numbers <= 4 && (numbers < 4 || keys.color_jitter[3] <= 0.5),
                "give at most brightness, contrast, saturation, hue, for example [0.4, 0.4, 0.4, 0.1]",
                "augment.color_jitter has ", numbers, " numbers; a hue is at most 0.5");
}

}  // namespace octet
