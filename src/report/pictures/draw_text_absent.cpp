// A build without Pango draws boxes without names.
#include <spdlog/spdlog.h>

#include <mutex>

#include "src/report/pictures/draw_text.h"

namespace octet {

Raster letters_of_text(const std::string&, int) {
  static std::once_flag warned;
  std::call_once(warned, [] { spdlog::warn("pictures have no texts: this build of octet has no Pango"); });
  return {};
}

}  // namespace octet
