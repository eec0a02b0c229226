// Decoded images in one file, so that an epoch decodes nothing. Little-endian:
//   "octpack3"; u64 offset of the index; u64 image_size; rows of RGB bytes of one image after the other;
//   index: u64 images, u64 classes; each class: u64 length, name; each image: u64 offset, u32 width, u32 height, i64
//   class, u64 hash
// An image is upright and keeps its proportions. Its shorter side is at most what random crops of image_size pixels
// need; in val.pack, the side to which evaluation resizes.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/config/config.h"
#include "src/data/fingerprint.h"

namespace octet {

inline constexpr std::string_view pack_magic = "octpack3";
inline constexpr int longest_side = 65535;  // of a packed image
struct PackedImage {                        // as the index holds it
  uint64_t offset = 0;
  uint32_t width = 0, height = 0;
  int64_t label = 0;
  uint64_t hash = 0;
};
static_assert(sizeof(PackedImage) == 32);
// Of the rows, the shape and the class.
inline uint64_t hash_of(const PackedImage& image, std::span<const uint8_t> rows) {
  const std::array<int64_t, 3> known{image.label, image.width, image.height};
  return fingerprint(fingerprint(0, known), rows);
}

struct PackIndex {
  uint64_t image_size = 0;
  std::vector<std::string> classes;
  std::vector<PackedImage> images;  // whose rows lie in the file, and whose labels have names
};
// Of the bytes of a pack. UsageError: octet did not write it so; `path` names it in messages.
PackIndex read_pack_index(std::span<const uint8_t> bytes, const std::string& path);

struct PackReport {
  int64_t images = 0, skipped = 0;
  uint64_t bytes = 0;
};
// Packs data.root, a folder of images, into train.pack and val.pack in `directory`. Each is complete or absent.
// data.bad_images says whether a bad image stops it, or is skipped and reported.
PackReport pack_image_folder(const Config&, const std::string& directory);

}  // namespace octet
