// PNM files: gray (P2, P5) or RGB values (P3, P6), as text or as bytes. https://netpbm.sourceforge.net/doc/ppm.html
// OpenCV reads values of 16 bits without regard to the file's maximum.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>

#include "kernels/base/error.h"
#include "src/data/images/image_format.h"

namespace octet {
namespace {

[[noreturn]] void refuse_pnm(const std::string& reason) {
  throw BadImage(ImageFault::damaged, say("bad PNM data: ", reason));
}

// The decimal numbers of a file, after white space and comments.
class PnmNumbers {
 public:
  explicit PnmNumbers(FileBytes file) : file_(file) {}

  // At most 2^30, which is more than any number may be. Throws BadImage.
  int64_t next() {
    while (at_ < file_.size() && (isspace(file_[at_]) || file_[at_] == '#')) {
      if (file_[at_] == '#')
        while (at_ < file_.size() && file_[at_] != '\n' && file_[at_] != '\r') ++at_;
      else
        ++at_;
    }
    if (at_ == file_.size()) refuse_pnm("it ends too early");
    if (!isdigit(file_[at_])) refuse_pnm(say("no number at byte ", at_));
    int64_t value = 0;
    for (; at_ < file_.size() && isdigit(file_[at_]); ++at_)
      value = std::min<int64_t>(10 * value + (file_[at_] - '0'), 1 << 30);
    return value;
  }
  // What follows the last number and one white space.
  FileBytes rest() const { return file_.subspan(std::min(at_ + 1, file_.size())); }

 private:
  FileBytes file_;
  size_t at_ = 2;  // after the mark P2 .. P6
};

// Bytes for the values 0 .. maximum, rounded as Pillow rounds them: halves to even.
std::vector<uint8_t> scaled_values(int64_t maximum) {
  std::vector<uint8_t> bytes(maximum + 1);
  for (int64_t value = 0; value <= maximum; ++value)
    bytes[value] =
        static_cast<uint8_t>(std::nearbyint(static_cast<double>(value) / static_cast<double>(maximum) * 255));
  return bytes;
}

// next: gives one value after the other. Returns the largest.
template <class Next>
int64_t fill_pixels(const Raster& image, bool rgb, int64_t maximum, Next next) {
  const std::vector<uint8_t> scaled = scaled_values(maximum);
  int64_t largest = 0;
  const auto take = [&] {
    const int64_t value = next();
    largest = std::max(largest, value);
    return scaled[std::min(value, maximum)];
  };
  for (uint8_t* to = image.data; to != image.data + image.bytes().size(); to += 3) {
    to[0] = take();
    to[1] = rgb ? take() : to[0];
    to[2] = rgb ? take() : to[0];
  }
  return largest;
}

}  // namespace

ImageHeader pnm_header(FileBytes file) {
  PnmNumbers numbers(file);
  const int64_t width = numbers.next();
  return {.width = width, .height = numbers.next()};
}

Raster decode_pnm(FileBytes file, const ImageHeader& header, double, std::vector<std::string>* warnings) {
  PnmNumbers numbers(file);
  for (int i = 0; i < 2; ++i) numbers.next();  // the size
  const int64_t maximum = numbers.next();
  if (maximum < 1 || maximum > 65535) refuse_pnm(say("its maximum is ", maximum, ", not 1 .. 65535"));
  const bool text = file[1] < '4', rgb = file[1] == '3' || file[1] == '6';
  const int64_t bytes_each = maximum > 255 ? 2 : 1, values = header.width * header.height * (rgb ? 3 : 1);
  const FileBytes rest = numbers.rest();
  if (static_cast<int64_t>(rest.size()) < (text ? 2 * values - 1 : bytes_each * values))
    refuse_pnm("it ends too early");
  Raster image(static_cast<int>(header.height), static_cast<int>(header.width), 3);
  const uint8_t* from = rest.data();
  int64_t largest = 0;
  if (text)
    largest = fill_pixels(image, rgb, maximum, [&] { return numbers.next(); });
  else if (bytes_each == 2)
    largest = fill_pixels(image, rgb, maximum, [&] { return from += 2, int64_t{from[-2]} << 8 | from[-1]; });
  else if (rgb && maximum == 255)
    std::memcpy(image.data, from, values);
  else
    largest = fill_pixels(image, rgb, maximum, [&] { return int64_t{*from++}; });
  if (warnings != nullptr && largest > maximum)
    warnings->push_back(say("a value of ", largest, " is read as the file's maximum, ", maximum));
  if (warnings != nullptr && maximum == 65535 && largest < 4096) warnings->emplace_back(dark_sixteen_bits);
  return image;
}

}  // namespace octet
