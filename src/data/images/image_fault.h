// Why an image cannot be read.
#pragma once
#include <stdexcept>
#include <string>
#include <utility>

namespace octet {

enum class ImageFault {
  unreadable,    // the file cannot be read
  empty,         // it has no bytes
  other_format,  // octet does not read its format
  too_large,     // more pixels or bytes than data.max_pixels allows
  damaged,       // its bytes end too early, or contradict each other
  other_size     // it has not the size that its annotation says
};

// what() is the reason without the path; the caller adds it.
struct BadImage : std::runtime_error {
  explicit BadImage(ImageFault kind, const std::string& reason, std::string how = "repair the file")
      : std::runtime_error(reason), fault(kind), fix(std::move(how)) {}
  ImageFault fault;
  std::string fix;
};

}  // namespace octet
