#include "kernels/base/text.h"

#include <cstdio>

namespace octet {
namespace {

// The bytes of a control character at the start; 0: there is none. Unicode has a second set, in UTF-8 after byte C2.
size_t control_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x20 || first == 0x7F) return 1;
  const unsigned second = text.size() > 1 ? static_cast<unsigned char>(text[1]) : 0u;
  return first == 0xC2 && second >= 0x80 && second < 0xA0 ? 2 : 0;
}

}  // namespace

std::string printable(std::string_view text, bool lines) {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const size_t count = control_bytes(text.substr(at));
    const bool stays = lines && text[at] == '\n' && (at + 1 == text.size() || text.substr(at + 1).starts_with("  "));
    if (count == 0 || stays) {
      shown += text[at++];
      continue;
    }
    for (size_t i = 0; i < count; ++i) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(text[at++])));
      shown += hex;
    }
  }
  return shown;
}

}  // namespace octet
