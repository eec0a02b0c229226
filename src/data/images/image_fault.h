// Why an image cannot be read.
#pragma once
#include <stdexcept>
#include <string>

namespace octet {

enum class ImageFault {
  unreadable,    // the file cannot be read
  empty,         // it has no bytes
  other_format,  // octet does not read its format
  too_large,     // more pixels or bytes than data.max_pixels allows
  damaged        // its bytes end too early, or contradict each other
};

// what() is the reason without the path; the caller adds it.
struct BadImage : std::runtime_error {
  BadImage(ImageFault kind, const std::string& reason) : std::runtime_error(reason), fault(kind) {}
  ImageFault fault;
};

}  // namespace octet
