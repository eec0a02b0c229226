#include "kernels/base/error.h"

namespace octet {
namespace {
// The path of a source file below the root of the project, for a build in any directory.
std::string from_root(const std::string& file) {
  for (const char* folder : {"/kernels/", "/comm/", "/src/", "/tests/"}) {
    const size_t at = file.rfind(folder);
    if (at != std::string::npos) return file.substr(at + 1);
  }
  return file;
}
}  // namespace

Error::Error(const char* file, int line, const std::string& what, const std::string& fix)
    : std::runtime_error(say(from_root(file), ":", line, ": ", what, "\n  fix: ", fix)) {}

Error::Error(const std::string& what, const std::string& fix) : std::runtime_error(say(what, "\n  fix: ", fix)) {}

UsageError::UsageError(const char* /*file*/, int /*line*/, const std::string& what, const std::string& fix)
    : Error(what, fix) {}

}  // namespace octet
