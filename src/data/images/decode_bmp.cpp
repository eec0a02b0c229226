// BMP files. OpenCV prints when it fails, mistakes the masks of 32-bit pixels, and makes 248 of a white of 5 bits.
// https://learn.microsoft.com/en-us/windows/win32/gdi/bitmap-storage
#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

#include "kernels/base/error.h"
#include "src/data/images/image_format.h"
#include "src/data/images/raster.h"

namespace octet {
namespace {

enum BmpCompression : uint64_t { plain_rows = 0, runs_of_8 = 1, runs_of_4 = 2, masked = 3, masked_with_alpha = 6 };

[[noreturn]] void refuse_bmp(const std::string& reason) {
  throw BadImage(ImageFault::damaged, say("bad BMP data: ", reason));
}

using BmpColour = std::array<uint8_t, 3>;  // red, green, blue
using BmpMasks = std::array<uint32_t, 3>;  // likewise
constexpr BmpMasks usual_masks = {0xFF0000, 0xFF00, 0xFF};

struct BmpLayout {
  int64_t width = 0, height = 0;
  bool top_down = false;
  uint64_t bits = 0, compression = plain_rows;
  uint64_t pixels = 0;             // where they begin
  BmpMasks masks{};                // in pixels of more than 8 bits
  std::vector<BmpColour> palette;  // 256 of them if pixels have at most 8 bits
};

BmpMasks masks_of(FileBytes file, const BmpLayout& layout) {
  constexpr uint64_t place = 54;  // behind the shortest header that can have masks, or in a longer one
  BmpMasks masks{};
  if (layout.compression != plain_rows)
    for (int c = 0; c < 3; ++c) masks[c] = static_cast<uint32_t>(little_endian(file, place + 4 * c, 4));
  if (masks != BmpMasks{}) return masks;
  return layout.bits == 16 ? BmpMasks{0x7C00, 0x3E0, 0x1F} : usual_masks;
}

BmpLayout bmp_layout(FileBytes file) {
  constexpr uint64_t header_at = 14, old_header = 12;  // an old header has sides of two bytes
  BmpLayout layout;
  const uint64_t length = little_endian(file, header_at, 4);
  const bool old = length == old_header;
  if (!old && length < 16) refuse_bmp(say("its header has ", length, " bytes"));
  const auto side = [&](uint64_t at) { return int64_t{static_cast<int32_t>(little_endian(file, at, 4))}; };
  layout.width = old ? static_cast<int64_t>(little_endian(file, 18, 2)) : side(18);
  const int64_t height = old ? static_cast<int64_t>(little_endian(file, 20, 2)) : side(22);
  layout.height = std::abs(height);
  layout.top_down = height < 0;
  layout.bits = little_endian(file, old ? 24 : 28, 2);
  layout.compression = length >= 20 ? little_endian(file, 30, 4) : plain_rows;
  layout.masks = masks_of(file, layout);
  const uint64_t named = length >= 36 ? little_endian(file, 46, 4) : 0, entry = old ? 3 : 4;
  uint64_t end = header_at + length;
  if (layout.bits <= 8) {
    const uint64_t most = uint64_t{1} << layout.bits, colours = named == 0 ? most : std::min(named, most);
    layout.palette.resize(256);
    for (uint64_t i = 0; i < colours; ++i)
      for (uint64_t c = 0; c < 3; ++c)
        layout.palette[i][c] = static_cast<uint8_t>(little_endian(file, end + entry * i + 2 - c, 1));
    end += entry * (named == 0 ? most : named);
  } else if (layout.compression != plain_rows && length == 40) {
    end += 12;  // the masks
  }
  const uint64_t pixels = little_endian(file, 10, 4);
  layout.pixels = pixels > header_at + length ? pixels : end;  // some files name no place, or that of the palette
  return layout;
}

void require_known(const BmpLayout& layout) {
  const uint64_t bits = layout.bits, compression = layout.compression;
  const bool known = compression == plain_rows
                         ? bits == 1 || bits == 2 || bits == 4 || bits == 8 || bits == 16 || bits == 24 || bits == 32
                     : compression == runs_of_8 ? bits == 8
                     : compression == runs_of_4 ? bits == 4
                     : compression == masked || compression == masked_with_alpha
                         ? bits == 16 || bits == 24 || bits == 32
                         : false;
  if (!known)
    throw BadImage(ImageFault::other_format, say("a BMP file of ", bits, "-bit pixels with compression ", compression,
                                                 ", which octet does not read; convert it to PNG"));
}

// A channel of a pixel: the value of its mask's bits in 8 bits, rounded down as Pillow does.
class BmpChannel {
 public:
  explicit BmpChannel(uint32_t mask)
      : mask_(mask), shift_(mask == 0 ? 0 : std::countr_zero(mask)), largest_(std::max(mask >> shift_, 1U)) {
    for (uint32_t value = 0; value < std::min<uint32_t>(largest_ + 1, 256); ++value) scaled_[value] = scaled(value);
  }
  uint8_t operator()(uint32_t pixel) const {
    const uint32_t value = (pixel & mask_) >> shift_;
    return largest_ < 256 ? scaled_[value] : scaled(value);
  }

 private:
  uint8_t scaled(uint32_t value) const { return static_cast<uint8_t>(uint64_t{value} * 255 / largest_); }
  uint32_t mask_;
  int shift_;
  uint32_t largest_;
  std::array<uint8_t, 256> scaled_{};  // divisions take long
};
using BmpChannels = std::array<BmpChannel, 3>;

void indexed_row(const uint8_t* from, const BmpLayout& layout, uint8_t* to) {
  const auto bits = static_cast<unsigned>(layout.bits);
  for (unsigned x = 0; x < layout.width; ++x, to += 3) {
    const unsigned index = from[x * bits / 8] >> (8 - bits - x * bits % 8) & ((1U << bits) - 1);
    std::ranges::copy(layout.palette[index], to);
  }
}

// Bytes of blue, green and red, and perhaps one more.
void byte_row(const uint8_t* from, const BmpLayout& layout, uint8_t* to) {
  for (int64_t x = 0; x < layout.width; ++x, to += 3, from += layout.bits / 8) std::reverse_copy(from, from + 3, to);
}

void masked_row(const uint8_t* from, const BmpLayout& layout, const BmpChannels& channels, uint8_t* to) {
  for (int64_t x = 0; x < layout.width; ++x, to += 3, from += layout.bits / 8) {
    uint32_t pixel = 0;
    for (uint64_t i = 0; i < layout.bits / 8; ++i) pixel |= uint32_t{from[i]} << (8 * i);
    for (int c = 0; c < 3; ++c) to[c] = channels[c](pixel);
  }
}

void read_bmp_rows(FileBytes file, const BmpLayout& layout, const Raster& image) {
  const uint64_t row_bits = layout.width * layout.bits, step = (row_bits + 31) / 32 * 4, rows = layout.height;
  const uint64_t needed = step * (rows - 1) + (row_bits + 7) / 8;  // the last row need not be padded
  if (file.size() < layout.pixels || file.size() - layout.pixels < needed) refuse_bmp("it ends too early");
  const BmpChannels channels = {BmpChannel(layout.masks[0]), BmpChannel(layout.masks[1]), BmpChannel(layout.masks[2])};
  const bool in_bytes = layout.masks == usual_masks && layout.bits >= 24;
  for (uint64_t y = 0; y < rows; ++y) {
    const uint8_t* const from = file.data() + layout.pixels + step * y;
    uint8_t* const row = image.ptr(static_cast<int>(layout.top_down ? y : rows - 1 - y));
    if (layout.bits <= 8)
      indexed_row(from, layout, row);
    else if (in_bytes)
      byte_row(from, layout, row);
    else
      masked_row(from, layout, channels, row);
  }
}

// Runs of palette indices. Pixels that no run covers have index 0, and those beyond the end of a row are left out.
class BmpRuns {
 public:
  BmpRuns(FileBytes file, const BmpLayout& layout, const Raster& image)
      : file_(file), layout_(layout), image_(image), at_(layout.pixels) {}

  void read() {
    for (size_t at = 0; at < image_.bytes().size(); at += 3) std::ranges::copy(layout_.palette[0], image_.data + at);
    const bool nibbles = layout_.compression == runs_of_4;
    while (y_ < layout_.height) {
      if (at_ + 2 > file_.size() && y_ == layout_.height - 1 && x_ >= layout_.width) return;  // no mark of the end
      const uint8_t count = byte(), code = byte();
      if (count > 0) {
        for (int i = 0; i < count; ++i) put(!nibbles ? code : i % 2 == 0 ? code >> 4 : code & 15);
      } else if (code == 0) {
        x_ = 0;
        ++y_;
      } else if (code == 1) {
        return;
      } else if (code == 2) {
        x_ += byte();
        y_ += byte();
      } else {
        read_singly(code, nibbles);
      }
    }
  }

 private:
  uint8_t byte() {
    if (at_ >= file_.size()) refuse_bmp("it ends too early");
    return file_[at_++];
  }
  // Padded to an even number of bytes.
  void read_singly(int count, bool nibbles) {
    const uint64_t begin = at_;
    uint8_t pair = 0;
    for (int i = 0; i < count; ++i) {
      if (!nibbles || i % 2 == 0) pair = byte();
      put(!nibbles ? pair : i % 2 == 0 ? pair >> 4 : pair & 15);
    }
    if ((at_ - begin) % 2 == 1) ++at_;
  }
  void put(int index) {
    if (x_ < layout_.width) {
      const int64_t row = layout_.top_down ? y_ : layout_.height - 1 - y_;
      std::ranges::copy(layout_.palette[index], image_.ptr(static_cast<int>(row), static_cast<int>(x_)));
    }
    ++x_;
  }

  const FileBytes file_;
  const BmpLayout& layout_;
  const Raster& image_;
  uint64_t at_;
  int64_t x_ = 0, y_ = 0;
};

}  // namespace

ImageHeader bmp_header(FileBytes file) {
  const BmpLayout layout = bmp_layout(file);
  return {.width = layout.width, .height = layout.height};
}

Raster decode_bmp(FileBytes file, const ImageHeader&, double, std::vector<std::string>*) {
  const BmpLayout layout = bmp_layout(file);
  require_known(layout);
  const Raster image(static_cast<int>(layout.height), static_cast<int>(layout.width));
  if (layout.compression == runs_of_8 || layout.compression == runs_of_4)
    BmpRuns(file, layout, image).read();
  else
    read_bmp_rows(file, layout, image);
  return image;
}

}  // namespace octet
