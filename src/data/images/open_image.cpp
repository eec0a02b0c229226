#include "src/data/images/open_image.h"

#include <memory>

#include "src/data/images/decode.h"
#include "src/data/images/image_files.h"

namespace octet {

OpenedImage open_image(const std::filesystem::path& file, int64_t max_pixels, View view) {
  const auto bytes = std::make_shared<const std::vector<uint8_t>>(read_image_file(file, most_bytes(max_pixels)));
  const ImageHeader header = read_header(*bytes, max_pixels);
  const int orientation = view == View::upright ? header.orientation : 1;
  const bool turned = orientation >= 5;
  return {{turned ? header.width : header.height, turned ? header.height : header.width},
          [=](double scale) { return upright(decode(*bytes, header, scale), orientation); }};
}

}  // namespace octet
