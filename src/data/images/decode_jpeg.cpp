// JPEG files, by libjpeg. TurboJPEG's functions would hide the kinds of its warnings.
#include <csetjmp>
#include <cstdio>  // before jpeglib.h, which needs it
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <cmath>
#include <iterator>

#include "kernels/base/error.h"
#include "src/data/images/image_format.h"

namespace octet {
namespace {

struct JpegReader {
  JpegReader() = default;
  ~JpegReader() { jpeg_destroy_decompress(&jpeg); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr messages{};
  jpeg_progress_mgr progress{};
  jmp_buf failed{};
  std::string error;
  std::vector<std::string> warnings;  // of files whose pixels are complete
  bool disordered = false;            // scans of a progressive file are out of order
};

JpegReader& jpeg_reader(j_common_ptr jpeg) { return *static_cast<JpegReader*>(jpeg->client_data); }

[[noreturn]] void fail_jpeg(j_common_ptr jpeg) {
  char text[JMSG_LENGTH_MAX];
  jpeg->err->format_message(jpeg, text);
  jpeg_reader(jpeg).error = text;
  longjmp(jpeg_reader(jpeg).failed, 1);
}

// Whether a scan of a progressive file only comes too early or again. If it refines what no scan before it had, that
// scan is missing.
bool only_out_of_order(j_common_ptr jpeg) {
  const auto& reader = *reinterpret_cast<j_decompress_ptr>(jpeg);
  const int coefficient = jpeg->err->msg_parm.i[1];
  const bool before_means = coefficient < reader.Ss;  // the block's mean, coefficient 0, may still come
  return reader.Ah == 0 || before_means;
}

// Whether the decoder has seen every pixel in spite of the warning. Other kinds say that it made some up.
bool harmless(j_common_ptr jpeg) {
  switch (jpeg->err->msg_code) {
    case JWRN_ADOBE_XFORM:      // of several meanings of the colours the usual one is taken
    case JWRN_BOGUS_ICC:        // colour profiles are not applied
    case JWRN_EXTRANEOUS_DATA:  // bytes between the end of one part and the next mark
    case JWRN_JFIF_MAJOR:       // a version of a header that changes no pixel
    case JWRN_NOT_SEQUENTIAL:   // parameters of a scan that a sequential decoder does not use
      return true;
    case JWRN_BOGUS_PROGRESSION:
      jpeg_reader(jpeg).disordered = true;
      return only_out_of_order(jpeg);
    default:
      return false;
  }
}

void hear_jpeg(j_common_ptr jpeg, int level) {
  constexpr int warning = -1;  // others are for debugging
  if (level != warning) return;
  if (!harmless(jpeg)) fail_jpeg(jpeg);
  char text[JMSG_LENGTH_MAX];
  jpeg->err->format_message(jpeg, text);
  jpeg_reader(jpeg).warnings.emplace_back(text);
}

// A few bytes must not request hours of progressive scans. TurboJPEG has the same limit.
void limit_scans(j_common_ptr jpeg) {
  constexpr int most_scans = 500;
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= most_scans) return;
  jpeg_reader(jpeg).error = "it has more than 500 scans";
  longjmp(jpeg_reader(jpeg).failed, 1);
}

// Whether the mean of each block of some colour is missing: no scan had it.
bool lacks_means(const jpeg_decompress_struct& jpeg) {
  for (int c = 0; c < jpeg.num_components; ++c)
    if (jpeg.coef_bits[c][0] < 0) return true;
  return false;
}

// After an error libjpeg returns here with longjmp, so nothing in these two functions may need a destructor.
bool open_jpeg(JpegReader& reader, FileBytes file) {
  constexpr int application_1 = JPEG_APP0 + 1;  // of EXIF and XMP
  constexpr unsigned longest = 0xFFFF;
  jpeg_decompress_struct& jpeg = reader.jpeg;
  jpeg.err = jpeg_std_error(&reader.messages);
  jpeg.err->error_exit = fail_jpeg;
  jpeg.err->emit_message = hear_jpeg;
  jpeg.client_data = &reader;
  reader.progress.progress_monitor = limit_scans;
  if (setjmp(reader.failed)) return false;
  jpeg_create_decompress(&jpeg);
  jpeg.progress = &reader.progress;
  jpeg_mem_src(&jpeg, file.data(), file.size());
  jpeg_save_markers(&jpeg, application_1, longest);
  jpeg_read_header(&jpeg, TRUE);
  return true;
}

bool read_jpeg(JpegReader& reader, uint8_t* pixels, size_t row) {
  jpeg_decompress_struct& jpeg = reader.jpeg;
  if (setjmp(reader.failed)) return false;
  jpeg_start_decompress(&jpeg);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW rows[16];
    const JDIMENSION count = std::min<JDIMENSION>(std::size(rows), jpeg.output_height - jpeg.output_scanline);
    for (JDIMENSION i = 0; i < count; ++i) rows[i] = pixels + (jpeg.output_scanline + i) * row;
    jpeg_read_scanlines(&jpeg, rows, count);
  }
  if (reader.disordered && lacks_means(jpeg)) {
    reader.error = "a scan is missing";
    return false;
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

void require_open(JpegReader& reader, FileBytes file) {
  if (!open_jpeg(reader, file)) throw BadImage(ImageFault::damaged, say("bad JPEG header: ", reader.error));
}

bool is_cmyk(const JpegReader& reader) {
  return reader.jpeg.jpeg_color_space == JCS_CMYK || reader.jpeg.jpeg_color_space == JCS_YCCK;
}

// All programs store CMYK as Adobe does, inverted: 255 means no ink.
Raster rgb_of_cmyk(const Raster& cmyk) {
  const Raster rgb(cmyk.rows, cmyk.cols);
  const uint8_t* from = cmyk.data;
  for (uint8_t* to = rgb.data; to != rgb.data + rgb.bytes().size(); to += 3, from += 4)
    for (int c = 0; c < 3; ++c) to[c] = static_cast<uint8_t>((from[c] * from[3] + 127) / 255);
  return rgb;
}

// Of a file whose scans refine all of the picture, as of progressive ones. libjpeg holds all coefficients until the
// last scan.
int64_t bytes_of_coefficients(jpeg_decompress_struct& jpeg) {
  if (!jpeg_has_multiple_scans(&jpeg)) return 0;
  int64_t blocks = 0;
  for (int c = 0; c < jpeg.num_components; ++c)
    blocks += int64_t{jpeg.comp_info[c].width_in_blocks} * int64_t{jpeg.comp_info[c].height_in_blocks};
  return blocks * int64_t{sizeof(JBLOCK)};
}

}  // namespace

ImageHeader jpeg_header(FileBytes file) {
  JpegReader reader;
  require_open(reader, file);
  FileBytes exif, xmp;
  constexpr std::string_view exif_mark{"Exif\0\0", 6}, xmp_mark{"http://ns.adobe.com/xap/1.0/\0", 29};
  for (const jpeg_marker_struct* marker = reader.jpeg.marker_list; marker != nullptr; marker = marker->next) {
    const FileBytes segment(marker->data, marker->data_length);
    if (starts_with(segment, exif_mark) && exif.empty()) exif = segment;
    if (starts_with(segment, xmp_mark)) xmp = segment;
  }
  const double pixels = double(reader.jpeg.image_width) * double(reader.jpeg.image_height);
  return {.width = reader.jpeg.image_width,
          .height = reader.jpeg.image_height,
          .orientation = orientation_of(tiff_fields(exif), xmp),
          .decoder_bytes = double(bytes_of_coefficients(reader.jpeg)) + (is_cmyk(reader) ? 4 * pixels : 0)};
}

Raster decode_jpeg(FileBytes file, const ImageHeader&, double scale, std::vector<std::string>* warnings) {
  JpegReader reader;
  require_open(reader, file);
  const bool cmyk = is_cmyk(reader);
  jpeg_decompress_struct& jpeg = reader.jpeg;
  jpeg.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  jpeg.scale_num = eighths(scale);
  jpeg.scale_denom = 8;
  const auto part = [&](JDIMENSION side) { return static_cast<int>((side * jpeg.scale_num + 7) / 8); };
  Raster image(part(jpeg.image_height), part(jpeg.image_width), cmyk ? 4 : 3);
  if (!read_jpeg(reader, image.data, image.step))
    throw BadImage(ImageFault::damaged, say("bad JPEG data: ", reader.error));
  if (warnings != nullptr) *warnings = reader.warnings;
  return cmyk ? rgb_of_cmyk(image) : image;
}

}  // namespace octet
