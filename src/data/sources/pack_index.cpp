// What a pack says about its images. Everything is checked before use: data sets are shared.
#include <cstring>

#include "kernels/base/error.h"
#include "src/data/sources/pack.h"

namespace octet {

PackIndex read_pack_index(std::span<const uint8_t> bytes, const std::string& path) {
  const auto check = [&](bool good, const char* what) {
    REQUIRE_USAGE(good, "pack the images again", path, " is damaged: ", what);
  };
  const size_t head = pack_magic.size() + 2 * sizeof(uint64_t);
  check(bytes.size() >= head && std::memcmp(bytes.data(), pack_magic.data(), pack_magic.size()) == 0,
        "it does not begin as a pack of this version");
  size_t at = pack_magic.size();
  const auto take = [&](auto& number) {
    check(at <= bytes.size() && sizeof number <= bytes.size() - at, "it ends too early");
    std::memcpy(&number, bytes.data() + at, sizeof number);
    at += sizeof number;
  };
  PackIndex all;
  uint64_t index = 0, images = 0, classes = 0;
  take(index);
  take(all.image_size);
  check(index >= head && index <= bytes.size(), "its index lies outside");
  at = index;
  take(images);
  take(classes);
  check(classes <= bytes.size() / sizeof(uint64_t) && images <= bytes.size() / sizeof(PackedImage),
        "its counts are too large");
  for (uint64_t i = 0; i < classes; ++i) {
    uint64_t length = 0;
    take(length);
    check(length <= bytes.size() - at, "a class name is too long");
    all.classes.emplace_back(reinterpret_cast<const char*>(bytes.data() + at), length);
    at += length;
  }
  for (uint64_t i = 0; i < images; ++i) {
    PackedImage image;
    take(image);
    const bool sides =
        image.width > 0 && image.height > 0 && image.width <= longest_side && image.height <= longest_side;
    check(sides && image.offset >= head && image.offset <= index &&
              uint64_t{image.width} * image.height * 3 <= index - image.offset,
          "an image lies outside");
    check(image.label >= 0 && uint64_t(image.label) < classes, "an image is of no class");
    all.images.push_back(image);
  }
  check(at == bytes.size(), "something follows its index");
  return all;
}

}  // namespace octet
