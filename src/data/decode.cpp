#include "src/data/decode.h"

#include <turbojpeg.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include "kernels/base/error.h"
#include "src/data/exif.h"

namespace octet {
namespace {

struct Destroy {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using Decompressor = std::unique_ptr<void, Destroy>;

constexpr uint8_t jpeg_start[] = {0xFF, 0xD8, 0xFF};
constexpr uint8_t png_start[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R'};

bool starts_with(std::span<const uint8_t> bytes, std::span<const uint8_t> start) {
  return bytes.size() >= start.size() && std::equal(start.begin(), start.end(), bytes.begin());
}

int64_t big_endian(const uint8_t* at) {
  return int64_t{at[0]} << 24 | int64_t{at[1]} << 16 | int64_t{at[2]} << 8 | int64_t{at[3]};
}

// libjpeg warns of a JFIF version that it does not know, and then suppresses later warnings. The version changes no
// pixel, so it is replaced by one that libjpeg knows.
std::span<const uint8_t> with_known_version(std::span<const uint8_t> jpeg, std::vector<uint8_t>& copy) {
  constexpr uint8_t jfif[] = {'J', 'F', 'I', 'F', 0};
  if (jpeg.size() < 12 || !starts_with(jpeg.subspan(6), jfif) || jpeg[11] == 1) return jpeg;
  copy.assign(jpeg.begin(), jpeg.end());
  copy[11] = 1;
  return copy;
}

Decompressor open_jpeg(std::span<const uint8_t> bytes, ImageHeader& header) {
  Decompressor handle(tjInitDecompress());
  REQUIRE(handle != nullptr, "free some memory", "turbojpeg cannot start: ", tjGetErrorStr2(nullptr));
  int width = 0, height = 0, subsampling = -1, colors = -1;
  const int code =
      tjDecompressHeader3(handle.get(), bytes.data(), bytes.size(), &width, &height, &subsampling, &colors);
  // turbojpeg refuses a subsampling that it has no name for, but has read everything else. It decodes such an image.
  const bool complete = width > 0 && height > 0 && colors >= 0 && subsampling < 0;
  if (code != 0 && !complete) throw BadImage(say("bad JPEG header: ", tjGetErrorStr2(handle.get())));
  header = {.jpeg = true, .cmyk = colors == TJCS_CMYK || colors == TJCS_YCCK, .width = width, .height = height};
  return handle;
}

cv::Mat decode_jpeg(std::span<const uint8_t> bytes, double scale) {
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
  if (!decoded(TJFLAG_STOPONWARNING) && !(only_padded() && (decoded(0) || only_padded())))
    throw BadImage(say("bad JPEG data: ", tjGetErrorStr2(handle.get())));
  if (!header.cmyk) return image;
  // All programs store CMYK as Adobe does, inverted: 255 means no ink.
  cv::Mat rgb(height, width, CV_8UC3);
  const uint8_t* from = image.data;
  for (uint8_t* to = rgb.data; to != rgb.dataend; to += 3, from += 4)
    for (int c = 0; c < 3; ++c) to[c] = static_cast<uint8_t>((from[c] * from[3] + 127) / 255);
  return rgb;
}

cv::Mat decode_png(std::span<const uint8_t> bytes) {
  cv::Mat image;
  try {
    const cv::Mat input(1, static_cast<int>(bytes.size()), CV_8UC1, const_cast<uint8_t*>(bytes.data()));
    image = cv::imdecode(input, cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION);
  } catch (const cv::Exception& exception) {
    throw BadImage(say("bad PNG: ", exception.err));
  }
  if (image.empty()) throw BadImage("bad PNG data: damaged, or it ends too early");
  cv::cvtColor(image, image, cv::COLOR_BGR2RGB);
  return image;
}

}  // namespace

ImageHeader read_header(std::span<const uint8_t> bytes, int64_t max_pixels) {
  ImageHeader header;
  if (bytes.empty()) throw BadImage("the file is empty");
  if (starts_with(bytes, jpeg_start)) {
    std::vector<uint8_t> copy;
    open_jpeg(with_known_version(bytes, copy), header);
    header.orientation = jpeg_orientation(bytes);
  } else if (starts_with(bytes, png_start) && bytes.size() >= 24) {
    header = {.width = big_endian(&bytes[16]), .height = big_endian(&bytes[20]), .orientation = png_orientation(bytes)};
  } else {
    std::string start;
    for (size_t i = 0; i < std::min<size_t>(bytes.size(), 4); ++i) {
      char hex[4];
      snprintf(hex, sizeof hex, " %02X", bytes[i]);
      start += hex;
    }
    throw BadImage(say("neither JPEG nor PNG: it starts with the bytes", start));
  }
  if (header.width < 1 || header.height < 1)
    throw BadImage(say("the header says ", header.width, " x ", header.height));
  if (header.width > max_pixels / header.height)
    throw BadImage(
        say("the header says ", header.width, " x ", header.height, ", more than data.max_pixels: ", max_pixels));
  return header;
}

cv::Mat decode(std::span<const uint8_t> bytes, const ImageHeader& header, double scale) {
  if (!header.jpeg) return decode_png(bytes);
  std::vector<uint8_t> copy;
  return decode_jpeg(with_known_version(bytes, copy), scale);
}

cv::Mat upright(const cv::Mat& stored, int orientation) {
  constexpr int across = 1, down = 0, both = -1;  // how cv::flip mirrors
  cv::Mat turned = stored;
  if (orientation >= 5) cv::transpose(stored, turned);
  if (orientation == 1 || orientation == 5) return turned;
  cv::Mat result;
  const bool mirrors_both = orientation == 3 || orientation == 7;
  cv::flip(turned, result, mirrors_both ? both : orientation == 2 || orientation == 6 ? across : down);
  return result;
}

}  // namespace octet
