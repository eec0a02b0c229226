// Image files, opened for a reader that may need only a part or a smaller decoding of their pixels.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "src/data/augment/canvases.h"
#include "src/data/images/decode.h"
#include "src/data/images/raster.h"

namespace octet {

// An image whose size is known and whose pixels are not decoded yet.
struct OpenedImage {
  ImageSize size;
  // 8-bit RGB (rows, columns, 3): the image, or a smaller decoding that is at least `scale` times as large. scale: at
  // most 1. Throws BadImage.
  std::function<Raster(double scale)> decode;
};

// stored: the pixels as the file holds them. upright: as EXIF's orientation says.
enum class View { stored, upright };
inline const char* name_of(View view) { return view == View::upright ? "upright" : "as stored"; }

// The size of the picture in this view.
ImageSize size_of(const ImageHeader&, View);

class ImageFile {
 public:
  // Reads the file and its header. Throws BadImage. max_pixels: larger images are bad.
  ImageFile(const std::filesystem::path& file, int64_t max_pixels);
  const ImageHeader& header() const { return header_; }
  OpenedImage seen(View) const;

 private:
  std::shared_ptr<const std::vector<uint8_t>> bytes_;
  ImageHeader header_;
};

inline OpenedImage open_image(const std::filesystem::path& file, int64_t max_pixels, View view) {
  return ImageFile(file, max_pixels).seen(view);
}

// The header of a file, without its pixels if they come last. Throws BadImage.
ImageHeader header_of(const std::filesystem::path& file, int64_t max_pixels);

// Memory that it takes to read, decode and resize an image at its largest, in bytes; 0: it is bad, or there is none.
// scale: by the image's size, as of decode(). side: of the resized image, in pixels.
int64_t bytes_to_read(const std::filesystem::path& file, int64_t max_pixels,
                      const std::function<double(ImageSize)>& scale, int64_t side);

// The number of bytes that a file of max_pixels pixels may have.
inline int64_t most_bytes(int64_t max_pixels) { return 8 * max_pixels + (1 << 20); }

}  // namespace octet
