// A configuration of any bytes is refused with a UsageError, or read to values that survive to_yaml() and back.
#include <cstdlib>

#include "kernels/base/error.h"
#include "src/config/config.h"

// The text, and after a zero byte an override.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  std::vector<std::string> overrides;
  if (zero != std::string::npos) overrides.push_back(input.substr(zero + 1));
  std::string yaml;
  try {
    yaml = octet::to_yaml(octet::parse_config(input.substr(0, zero), "input", overrides));
  } catch (const octet::UsageError&) {
    return 0;
  }
  if (octet::to_yaml(octet::parse_config(yaml, "resolved", {})) != yaml) abort();
  return 0;
}
