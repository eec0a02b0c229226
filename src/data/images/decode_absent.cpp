// A build without libtiff and libwebp knows files of these formats, and refuses them by name.
#include "kernels/base/error.h"
#include "src/data/images/image_format.h"

namespace octet {
namespace {

[[noreturn]] void refuse(const char* format) {
  throw BadImage(ImageFault::other_format, say("a ", format, " file, which this build of octet does not read"),
                 "convert it to PNG or JPEG, or use a build with every format");
}

}  // namespace

ImageHeader webp_header(FileBytes) { refuse("WebP"); }
Raster decode_webp(FileBytes, const ImageHeader&, double, std::vector<std::string>*) { refuse("WebP"); }
ImageHeader tiff_header(FileBytes) { refuse("TIFF"); }
Raster decode_tiff(FileBytes, const ImageHeader&, double, std::vector<std::string>*) { refuse("TIFF"); }

}  // namespace octet
