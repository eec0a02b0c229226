#include "kernels/base/error.h"

namespace octet {

Error::Error(const char* file, int line, const std::string& what, const std::string& fix)
    : std::runtime_error(say(file, ":", line, ": ", what, "\n  fix: ", fix)) {}

Error::Error(const std::string& what, const std::string& fix) : std::runtime_error(say(what, "\n  fix: ", fix)) {}

UsageError::UsageError(const char* /*file*/, int /*line*/, const std::string& what, const std::string& fix)
    : Error(what, fix) {}

}  // namespace octet
