#include "src/data/augment/mosaic.h"

#include <algorithm>
#include <cmath>

#include "src/data/draws.h"

namespace octet {
namespace {

// One of the middle 60 % of the places between pixels.
int64_t drawn_center(Draws& draws, int64_t side) {
  return side / 5 + draws.below(static_cast<uint32_t>(side - 2 * (side / 5) + 1));
}

}  // namespace

Mosaics::Mosaics(const Config& config)
    : share_(static_cast<float>(config.augment.mosaic)),
      epochs_(std::lround(config.augment.mosaic_until * static_cast<double>(config.train.epochs))) {}

std::optional<Mosaic> Mosaics::drawn(uint64_t seed, int64_t epoch, int64_t sample, int64_t samples,
                                     const ImageShape& canvas) const {
  if (epoch >= epochs_) return {};
  Draws draws(seed, epoch, DrawStream::mosaic, sample);
  if (!draws.chance(share_)) return {};
  Mosaic mosaic;
  mosaic.center_x = drawn_center(draws, canvas.width);
  mosaic.center_y = drawn_center(draws, canvas.height);
  const uint32_t own = draws.below(4);
  for (uint32_t i = 0; i < 4; ++i) {
    Mosaic::Part& part = mosaic.parts[i];
    part.sample = i == 0 ? sample : draws.below(static_cast<uint32_t>(samples));
    part.quarter = static_cast<int>((own + i) % 4);
    part.scale = draws.uniform(0.5f, 1);
  }
  return mosaic;
}

Tile tile_of(const Mosaic& mosaic, const Mosaic::Part& part, ImageSize content, const ImageShape& canvas) {
  const bool right = part.quarter % 2 == 1, bottom = part.quarter >= 2;
  Tile tile;
  tile.x = right ? mosaic.center_x : mosaic.center_x - content.width;
  tile.y = bottom ? mosaic.center_y : mosaic.center_y - content.height;
  tile.left = std::max<int64_t>(tile.x, 0), tile.top = std::max<int64_t>(tile.y, 0);
  tile.right = std::min(tile.x + content.width, canvas.width);
  tile.bottom = std::min(tile.y + content.height, canvas.height);
  return tile;
}

std::optional<Box> on_tile(const Box& on_image, const Tile& tile) {
  const auto x = static_cast<float>(tile.x), y = static_cast<float>(tile.y);
  const Box moved{on_image.x1 + x, on_image.y1 + y, on_image.x2 + x, on_image.y2 + y};
  const Box seen{std::max(moved.x1, static_cast<float>(tile.left)), std::max(moved.y1, static_cast<float>(tile.top)),
                 std::min(moved.x2, static_cast<float>(tile.right)),
                 std::min(moved.y2, static_cast<float>(tile.bottom))};
  if (seen.width() <= 0 || seen.height() <= 0) return {};
  if (seen.area() < least_kept_area * moved.area()) return {};
  return seen;
}

}  // namespace octet
