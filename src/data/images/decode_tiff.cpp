// TIFF files, by libtiff: OpenCV would multiply colours by alpha, fill missing strips with black, and print.
#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>

#include "kernels/base/error.h"
#include "src/data/images/image_format.h"

namespace octet {
namespace {

struct TiffSource {
  FileBytes file;
  uint64_t at = 0;
};
TiffSource& tiff_source(thandle_t handle) { return *static_cast<TiffSource*>(handle); }

tmsize_t read_tiff(thandle_t handle, void* to, tmsize_t count) {
  TiffSource& source = tiff_source(handle);
  const uint64_t left = source.file.size() - std::min<uint64_t>(source.at, source.file.size());
  const auto given = static_cast<tmsize_t>(std::min<uint64_t>(left, std::max<tmsize_t>(count, 0)));
  std::memcpy(to, source.file.data() + source.file.size() - left, given);
  source.at += given;
  return given;
}

tmsize_t write_tiff(thandle_t, void*, tmsize_t) { return 0; }

toff_t seek_tiff(thandle_t handle, toff_t offset, int whence) {
  TiffSource& source = tiff_source(handle);
  const uint64_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? source.at : source.file.size();
  return source.at = base + offset;
}

int close_tiff(thandle_t) { return 0; }
toff_t size_of_tiff(thandle_t handle) { return tiff_source(handle).file.size(); }

// Without it, libtiff 4.5 refuses tiles that are not compressed and have no multiple of 1024 bytes.
int map_tiff(thandle_t handle, void** bytes, toff_t* size) {
  *bytes = const_cast<uint8_t*>(tiff_source(handle).file.data());
  *size = size_of_tiff(handle);
  return 1;
}
void unmap_tiff(thandle_t, void*, toff_t) {}

// libtiff gives all messages of a process to one function. This is where those of a thread go.
struct TiffMessages {
  std::string error;  // the first one
  std::vector<std::string> warnings;
};
thread_local TiffMessages* tiff_listener = nullptr;

std::string tiff_text(const char* format, va_list arguments) {
  char text[256];
  vsnprintf(text, sizeof text, format, arguments);
  return text;
}

void keep_tiff_error(thandle_t, const char*, const char* format, va_list arguments) {
  if (tiff_listener != nullptr && tiff_listener->error.empty()) tiff_listener->error = tiff_text(format, arguments);
}

void keep_tiff_warning(thandle_t, const char*, const char* format, va_list arguments) {
  if (tiff_listener != nullptr) tiff_listener->warnings.push_back(tiff_text(format, arguments));
}

// Listens while it lives.
class TiffListener {
 public:
  TiffListener() {
    static std::once_flag installed;
    std::call_once(installed, [] {
      TIFFSetErrorHandler(nullptr);  // these would print
      TIFFSetWarningHandler(nullptr);
      TIFFSetErrorHandlerExt(keep_tiff_error);
      TIFFSetWarningHandlerExt(keep_tiff_warning);
    });
    tiff_listener = &messages;
  }
  ~TiffListener() { tiff_listener = nullptr; }
  TiffListener(const TiffListener&) = delete;
  TiffListener& operator=(const TiffListener&) = delete;

  TiffMessages messages;
};

struct CloseTiff {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};

uint16_t field_of(TIFF* tiff, uint32_t tag, uint16_t otherwise) {
  uint16_t value = otherwise;
  return TIFFGetFieldDefaulted(tiff, tag, &value) ? value : otherwise;
}

// Of the channels of a colour; 0: unknown.
int channels_of_colour(uint16_t photometric) {
  switch (photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
    case PHOTOMETRIC_PALETTE:
      return 1;
    case PHOTOMETRIC_RGB:
    case PHOTOMETRIC_YCBCR:
    case PHOTOMETRIC_CIELAB:
      return 3;
    case PHOTOMETRIC_SEPARATED:
      return 4;
    default:
      return 0;
  }
}

// Of values and channels that libtiff would misread, or refuse in other words.
void require_readable(TIFF* tiff) {
  const auto refuse = [](const std::string& what) {
    throw BadImage(
        ImageFault::other_format,
        say("a TIFF file of ", what, "; octet reads unsigned values of 1, 2, 4, 8 or 16 bits, as gray, RGB, a ",
            "palette, YCbCr, Lab or CMYK, with or without alpha: convert the file to such values"));
  };
  uint16_t photometric = 0;
  const int colour = TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &photometric) ? channels_of_colour(photometric) : 0;
  if (photometric == PHOTOMETRIC_LOGL || photometric == PHOTOMETRIC_LOGLUV) return;  // libtiff converts them
  const int bits = field_of(tiff, TIFFTAG_BITSPERSAMPLE, 1), channels = field_of(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
  const int kind = field_of(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
  if (kind == SAMPLEFORMAT_IEEEFP) refuse(say(bits, "-bit floating-point values"));
  if (kind == SAMPLEFORMAT_COMPLEXINT || kind == SAMPLEFORMAT_COMPLEXIEEEFP) refuse("complex numbers");
  // Files of 8 bits that say so hold usual pixels, which Pillow reads too.
  if (kind == SAMPLEFORMAT_INT && bits > 8) refuse(say("signed ", bits, "-bit values"));
  if (bits != 1 && bits != 2 && bits != 4 && bits != 8 && bits != 16) refuse(say(bits, "-bit values"));
  if (colour == 1 && channels > 2) refuse(say(channels, " gray channels"));
}

// Refuses strips and tiles that need far more memory than their pixels. libtiff holds one, or one of each plane.
void require_bounded_parts(TIFF* tiff, const ImageHeader& header) {
  constexpr int64_t always = int64_t{256} << 20;
  const bool planes = field_of(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_SEPARATE;
  const int64_t most = std::max(always, 4 * header.width * header.height) / (planes ? 4 : 1);
  const int64_t part = TIFFIsTiled(tiff) ? TIFFTileSize(tiff) : TIFFStripSize(tiff);
  if (part < 1 || part > most)
    throw BadImage(ImageFault::too_large, say("a TIFF file with strips or tiles of ", part, " bytes, beyond ", most),
                   "write it with smaller ones");
}

// Tells libtiff that colours are multiplied by alpha, so that it leaves them as they are. Returns whether they are.
bool keep_colours(TIFF* tiff) {
  uint16_t count = 0, *kinds = nullptr;
  if (!TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &count, &kinds) || count == 0) return false;
  std::vector<uint16_t> kept(kinds, kinds + count);
  const bool multiplied = kept.front() == EXTRASAMPLE_ASSOCALPHA;
  std::ranges::replace(kept, uint16_t{EXTRASAMPLE_UNASSALPHA}, uint16_t{EXTRASAMPLE_ASSOCALPHA});
  TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, count, kept.data());
  return multiplied;
}

// Turns libtiff's pixels, with red in the lowest byte and alpha in the highest, into RGB in their own memory.
void to_rgb(uint8_t* bytes, size_t pixels, bool multiplied) {
  uint8_t* to = bytes;
  for (size_t i = 0; i < pixels; ++i) {
    uint32_t pixel;
    std::memcpy(&pixel, bytes + i * sizeof pixel, sizeof pixel);
    const uint32_t alpha = TIFFGetA(pixel);
    for (int shift = 0; shift < 24; shift += 8) {
      const uint32_t value = pixel >> shift & 255;
      const uint32_t colour = !multiplied ? value : alpha == 0 ? 0 : std::min<uint32_t>(value * 255 / alpha, 255);
      *to++ = static_cast<uint8_t>(colour);
    }
  }
}

// A picture of the size that the file says, before it is turned.
Raster read_tiff_pixels(TIFF* tiff, bool multiplied, const TiffMessages& messages) {
  char reason[1024] = "";
  TIFFRGBAImage reader;
  constexpr int stop_at_errors = 1;
  if (!TIFFRGBAImageOK(tiff, reason) || !TIFFRGBAImageBegin(&reader, tiff, stop_at_errors, reason))
    throw BadImage(ImageFault::other_format, say("a TIFF file that libtiff does not read: ", reason));
  const std::unique_ptr<TIFFRGBAImage, void (*)(TIFFRGBAImage*)> end(&reader, TIFFRGBAImageEnd);
  reader.req_orientation = reader.orientation;  // as stored: libtiff would mirror the picture, but not turn it
  const auto width = static_cast<int>(reader.width), height = static_cast<int>(reader.height);
  Raster image(height + (height + 2) / 3, width, 3);  // libtiff's pixels have four bytes
  auto* const raster = reinterpret_cast<uint32_t*>(image.data);
  if (!TIFFRGBAImageGet(&reader, raster, reader.width, reader.height) || !messages.error.empty())
    throw BadImage(ImageFault::damaged,
                   say("bad TIFF data: ", messages.error.empty() ? "damaged, or it ends too early" : messages.error));
  to_rgb(image.data, size_t{reader.width} * reader.height, multiplied);
  return image.part({0, 0, width, height});
}

}  // namespace

// Pillow and OpenCV turn TIFF files upright whenever they read them, so this is the frame of annotated boxes too.
ImageHeader tiff_header(FileBytes file) {
  const TiffFields fields = tiff_fields(file);
  const bool turned = fields.orientation >= 5;
  return {.width = turned ? fields.height : fields.width,
          .height = turned ? fields.width : fields.height,
          .orientation = fields.orientation == 0 ? orientation_of(fields, fields.xmp) : 1,
          // libtiff's four channels, and a strip, which may be the whole picture.
          .decoder_bytes = 8.0 * double(fields.width) * double(fields.height)};
}

Raster decode_tiff(FileBytes file, const ImageHeader& header, double, std::vector<std::string>* warnings) {
  // libtiff copies every field, and fields may name the same bytes. Those of a sound file do not.
  if (tiff_fields(file).bytes > file.size())
    throw BadImage(ImageFault::damaged, "bad TIFF header: its fields have more bytes than the file");
  TiffListener heard;
  TiffSource source{file};
  const std::unique_ptr<TIFF, CloseTiff> tiff(TIFFClientOpen("", "r", &source, read_tiff, write_tiff, seek_tiff,
                                                             close_tiff, size_of_tiff, map_tiff, unmap_tiff));
  if (tiff == nullptr) throw BadImage(ImageFault::damaged, say("bad TIFF header: ", heard.messages.error));
  uint32_t width = 0, height = 0;
  TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height);
  if (int64_t{width} * height != header.width * header.height)
    throw BadImage(ImageFault::damaged, "bad TIFF header: it has two sizes");
  require_readable(tiff.get());
  require_bounded_parts(tiff.get(), header);
  const bool multiplied = keep_colours(tiff.get());
  heard.messages = {};  // warnings of the header are about fields that octet does not read
  const Raster stored = read_tiff_pixels(tiff.get(), multiplied, heard.messages);
  const Raster image = upright(stored, field_of(tiff.get(), TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT));
  if (image.cols != header.width || image.rows != header.height)
    throw BadImage(ImageFault::damaged, "bad TIFF header: it has two sizes");
  if (warnings == nullptr) return image;
  *warnings = heard.messages.warnings;
  // 4095 of 65535 are 16 of 255.
  if (field_of(tiff.get(), TIFFTAG_BITSPERSAMPLE, 1) == 16 &&
      std::ranges::all_of(image.bytes(), [](uint8_t value) { return value <= 16; }))
    warnings->emplace_back(dark_sixteen_bits);
  return image;
}

}  // namespace octet
