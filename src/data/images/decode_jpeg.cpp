// JPEG files, by libjpeg-turbo.
#include <turbojpeg.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/base/error.h"
#include "src/data/images/image_format.h"

namespace octet {
namespace {

struct Destroy {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using Decompressor = std::unique_ptr<void, Destroy>;

// libjpeg warns of a JFIF version that it does not know, and then suppresses later warnings. The version changes no
// pixel, so it is replaced by one that libjpeg knows.
FileBytes with_known_version(FileBytes jpeg, std::vector<uint8_t>& copy) {
  if (jpeg.size() < 12 || !starts_with(jpeg.subspan(6), {"JFIF\0", 5}) || jpeg[11] == 1) return jpeg;
  copy.assign(jpeg.begin(), jpeg.end());
  copy[11] = 1;
  return copy;
}

Decompressor open_jpeg(FileBytes bytes, ImageHeader& header) {
  Decompressor handle(tjInitDecompress());
  REQUIRE(handle != nullptr, "free some memory", "turbojpeg cannot start: ", tjGetErrorStr2(nullptr));
  int width = 0, height = 0, subsampling = -1, colors = -1;
  const int code =
      tjDecompressHeader3(handle.get(), bytes.data(), bytes.size(), &width, &height, &subsampling, &colors);
  // turbojpeg refuses a subsampling that it has no name for, but has read everything else. It decodes such an image.
  const bool complete = width > 0 && height > 0 && colors >= 0 && subsampling < 0;
  if (code != 0 && !complete)
    throw BadImage(ImageFault::damaged, say("bad JPEG header: ", tjGetErrorStr2(handle.get())));
  header = {.cmyk = colors == TJCS_CMYK || colors == TJCS_YCCK, .width = width, .height = height};
  return handle;
}

// EXIF data are in an application segment before the pixels.
int jpeg_orientation(FileBytes file) {
  constexpr uint64_t start_of_scan = 0xFFDA, end_of_image = 0xFFD9, application_1 = 0xFFE1;
  for (uint64_t at = 2; at + 4 <= file.size();) {
    const uint64_t marker = big_endian(file, at, 2), length = big_endian(file, at + 2, 2);
    if (marker < 0xFF00 || marker == start_of_scan || marker == end_of_image) break;
    if (marker == 0xFFFF) {  // a marker may have any number of bytes 0xFF before it
      ++at;
      continue;
    }
    if (at + 2 + length > file.size() || length < 2) break;
    const FileBytes segment = file.subspan(at + 4, length - 2);
    if (marker == application_1 && starts_with(segment, {"Exif\0\0", 6})) return tiff_fields(segment).orientation;
    at += 2 + length;
  }
  return 1;
}

}  // namespace

ImageHeader jpeg_header(FileBytes file) {
  std::vector<uint8_t> copy;
  ImageHeader header;
  open_jpeg(with_known_version(file, copy), header);
  header.orientation = jpeg_orientation(file);
  return header;
}

cv::Mat decode_jpeg(FileBytes file, const ImageHeader&, double scale, std::vector<std::string>* warnings) {
  std::vector<uint8_t> copy;
  const FileBytes bytes = with_known_version(file, copy);
  ImageHeader header;
  const Decompressor handle = open_jpeg(bytes, header);
  int count = 0;
  const tjscalingfactor* factors = tjGetScalingFactors(&count);
  tjscalingfactor best = {1, 1};
  for (int i = 0; i < count; ++i) {
    const double factor = static_cast<double>(factors[i].num) / factors[i].denom;
    if (factor >= scale && factor * best.denom < best.num) best = factors[i];
  }
  const int width = TJSCALED(static_cast<int>(header.width), best),
            height = TJSCALED(static_cast<int>(header.height), best);
  cv::Mat image(height, width, header.cmyk ? CV_8UC4 : CV_8UC3);
  // A warning means that pixels were invented. The exception is a warning of bytes between the last pixel and the end
  // marker 0xFFD9, because nothing is missing then. In a file with restart markers such bytes may hide the rest of the
  // image, so there it counts as damage. LIMITSCANS: a few bytes must not request hours of progressive scans.
  const auto decoded = [&](int flags) {
    return tjDecompress2(handle.get(), bytes.data(), bytes.size(), image.data, width, 0, height,
                         header.cmyk ? TJPF_CMYK : TJPF_RGB, flags | TJFLAG_LIMITSCANS) == 0;
  };
  constexpr uint8_t restarts[] = {0xFF, 0xDD};
  const auto only_padded = [&] {
    return std::search(bytes.begin(), bytes.end(), std::begin(restarts), std::end(restarts)) == bytes.end() &&
           tjGetErrorCode(handle.get()) == TJERR_WARNING && strstr(tjGetErrorStr2(handle.get()), "before marker 0xd9");
  };
  if (!decoded(TJFLAG_STOPONWARNING)) {
    const std::string warning = tjGetErrorStr2(handle.get());
    if (!(only_padded() && (decoded(0) || only_padded())))
      throw BadImage(ImageFault::damaged, say("bad JPEG data: ", tjGetErrorStr2(handle.get())));
    if (warnings != nullptr) warnings->push_back(warning);
  }
  if (!header.cmyk) return image;
  // All programs store CMYK as Adobe does, inverted: 255 means no ink.
  cv::Mat rgb(height, width, CV_8UC3);
  const uint8_t* from = image.data;
  for (uint8_t* to = rgb.data; to != rgb.dataend; to += 3, from += 4)
    for (int c = 0; c < 3; ++c) to[c] = static_cast<uint8_t>((from[c] * from[3] + 127) / 255);
  return rgb;
}

}  // namespace octet
