// WebP files, by libwebp.
#include <webp/decode.h>

#include "kernels/base/error.h"
#include "src/data/images/image_format.h"

namespace octet {

// RIFF chunks: name, length, data, padded to an even length.
// https://developers.google.com/speed/webp/docs/riff_container
ImageHeader webp_header(FileBytes file) {
  constexpr uint64_t animated = 2, mask = 0x3FFF;
  ImageHeader header;
  const FileBytes first = file.subspan(12);
  if (starts_with(first, "VP8 ")) {
    header.width = static_cast<int64_t>(little_endian(file, 26, 2) & mask);
    header.height = static_cast<int64_t>(little_endian(file, 28, 2) & mask);
  } else if (starts_with(first, "VP8L")) {
    const uint64_t sides = little_endian(file, 21, 4);
    header.width = static_cast<int64_t>(1 + (sides & mask));
    header.height = static_cast<int64_t>(1 + (sides >> 14 & mask));
  } else if (starts_with(first, "VP8X")) {
    if (little_endian(file, 20, 1) & animated)
      throw BadImage(ImageFault::other_format, "an animated WebP file, which octet does not read");
    header.width = static_cast<int64_t>(1 + little_endian(file, 24, 3));
    header.height = static_cast<int64_t>(1 + little_endian(file, 27, 3));
  }
  FileBytes exif, xmp;
  for (uint64_t at = 12; at + 8 <= file.size();) {
    const uint64_t length = little_endian(file, at + 4, 4), data = at + 8;
    if (length > file.size() - data) break;
    if (starts_with(file.subspan(at), "EXIF")) exif = file.subspan(data, length);
    if (starts_with(file.subspan(at), "XMP ")) xmp = file.subspan(data, length);
    at = data + length + length % 2;
  }
  header.orientation = orientation_of(tiff_fields(exif), xmp);
  const bool lossy = starts_with(first, "VP8 ");
  // Of lossless ones libwebp holds four channels; VP8X may be either.
  if (!lossy) header.decoder_bytes = 4.0 * double(header.width) * double(header.height);
  return header;
}

Raster decode_webp(FileBytes file, const ImageHeader& header, double, std::vector<std::string>*) {
  int width = 0, height = 0;
  if (!WebPGetInfo(file.data(), file.size(), &width, &height)) throw BadImage(ImageFault::damaged, "bad WebP header");
  if (width != header.width || height != header.height)
    throw BadImage(ImageFault::damaged, say("bad WebP data: ", width, " x ", height, " pixels, but the header says ",
                                            header.width, " x ", header.height));
  Raster image(height, width, 3);
  if (WebPDecodeRGBInto(file.data(), file.size(), image.data, image.bytes().size(), static_cast<int>(image.step)) ==
      nullptr)
    throw BadImage(ImageFault::damaged, "bad WebP data: damaged, or it ends too early");
  return image;
}

}  // namespace octet
