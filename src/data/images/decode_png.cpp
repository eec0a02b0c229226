// PNG files, by libpng, so that its messages reach the caller and not the terminal.
#include <png.h>

#include <algorithm>
#include <cstring>

#include "kernels/base/error.h"
#include "src/data/images/image_format.h"

namespace octet {
namespace {

struct PngSource {
  FileBytes file;
  size_t at = 0;
  std::string error;
  std::vector<std::string>* warnings = nullptr;
};

void give_bytes(png_structp png, png_bytep to, size_t count) {
  auto& source = *static_cast<PngSource*>(png_get_io_ptr(png));
  if (count > source.file.size() - source.at) png_error(png, "it ends too early");
  std::memcpy(to, source.file.data() + source.at, count);
  source.at += count;
}

[[noreturn]] void keep_error(png_structp png, png_const_charp text) {
  static_cast<PngSource*>(png_get_error_ptr(png))->error = text;
  png_longjmp(png, 1);
}

void keep_warning(png_structp png, png_const_charp text) {
  const auto& source = *static_cast<PngSource*>(png_get_error_ptr(png));
  if (source.warnings != nullptr) source.warnings->emplace_back(text);
}

// After an error libpng returns here with longjmp, so nothing in this function may need a destructor.
bool read_pixels(png_structp png, png_infop info, uint8_t* pixels, size_t row) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_read_info(png, info);
  png_set_palette_to_rgb(png);
  png_set_expand_gray_1_2_4_to_8(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_gray_to_rgb(png);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  if (png_get_rowbytes(png, info) != row) png_error(png, "its rows have another size than the header says");
  const png_uint_32 height = png_get_image_height(png, info);
  for (int pass = 0; pass < passes; ++pass)
    for (png_uint_32 y = 0; y < height; ++y) png_read_row(png, pixels + y * row, nullptr);
  png_read_end(png, info);
  return true;
}

}  // namespace

ImageHeader png_header(FileBytes file) {
  return {.width = static_cast<int64_t>(big_endian(file, 16, 4)),
          .height = static_cast<int64_t>(big_endian(file, 20, 4)),
          .orientation = png_orientation(file)};
}

Raster decode_png(FileBytes file, const ImageHeader& header, double, std::vector<std::string>* warnings) {
  PngSource source{.file = file, .error = {}, .warnings = warnings};
  Raster image(static_cast<int>(header.height), static_cast<int>(header.width), 3);
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, keep_error, keep_warning);
  png_infop info = png != nullptr ? png_create_info_struct(png) : nullptr;
  bool complete = false;
  if (info != nullptr) {
    png_set_read_fn(png, &source, give_bytes);
    // Texts and suggested palettes are thrown away unread: a file may have many, and a few bytes unpack to megabytes.
    constexpr png_byte unread[] = "tEXt\0zTXt\0iTXt\0sPLT";
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, unread, sizeof unread / 5);
    complete = read_pixels(png, info, image.data, image.step);
  }
  png_destroy_read_struct(&png, &info, nullptr);
  if (!complete) throw BadImage(ImageFault::damaged, say("bad PNG data: ", source.error));
  constexpr uint64_t depth_at = 24;  // of IHDR
  if (warnings != nullptr && big_endian(file, depth_at, 1) == 16 &&
      std::ranges::all_of(image.bytes(), [](uint8_t upper) { return upper < 16; }))
    warnings->emplace_back(dark_sixteen_bits);
  return image;
}

}  // namespace octet
