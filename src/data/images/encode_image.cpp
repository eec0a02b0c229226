#include "src/data/images/encode_image.h"

#include <png.h>
#include <turbojpeg.h>

#include <memory>

#include "kernels/base/error.h"

namespace octet {

std::vector<uint8_t> png_of(const Raster& rgb) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(rgb.cols), image.height = static_cast<png_uint_32>(rgb.rows);
  image.format = PNG_FORMAT_RGB;
  image.flags = PNG_IMAGE_FLAG_FAST;
  std::vector<uint8_t> bytes(PNG_IMAGE_PNG_SIZE_MAX(image));
  png_alloc_size_t size = bytes.size();
  const bool written = png_image_write_to_memory(&image, bytes.data(), &size, false, rgb.data,
                                                 static_cast<png_int_32>(rgb.step), nullptr) != 0;
  REQUIRE(written, "free some memory", "cannot encode a PNG of ", rgb.cols, " x ", rgb.rows, ": ", image.message);
  bytes.resize(size);
  return bytes;
}

std::vector<uint8_t> jpeg_of(const Raster& rgb) {
  constexpr int quality = 85;
  const auto close = [](void* handle) { tjDestroy(handle); };
  const std::unique_ptr<void, decltype(close)> handle(tjInitCompress(), close);
  std::vector<uint8_t> bytes(tjBufSize(rgb.cols, rgb.rows, TJSAMP_420));
  unsigned char* buffer = bytes.data();
  unsigned long size = bytes.size();
  const bool written =
      handle != nullptr && tjCompress2(handle.get(), rgb.data, rgb.cols, static_cast<int>(rgb.step), rgb.rows, TJPF_RGB,
                                       &buffer, &size, TJSAMP_420, quality, TJFLAG_NOREALLOC) == 0;
  REQUIRE(written, "free some memory", "cannot encode a JPEG of ", rgb.cols, " x ", rgb.rows, ": ",
          tjGetErrorStr2(handle.get()));
  bytes.resize(size);
  return bytes;
}

}  // namespace octet
