// Errors that say where, what and how to fix it. report_error() prints them, in a job of several ranks with the rank.
#pragma once
#include <stdexcept>
#include <string>

#include "kernels/base/text.h"

namespace octet {

// what() reads:  src/graph/plan.cpp:88: 'conv2' takes 64 channels, 'conv1' gives 32
//                  fix: set `channels: 64` on conv1
class Error : public std::runtime_error {
 public:
  Error(const char* file, int line, const std::string& what, const std::string& fix);

 protected:
  Error(const std::string& what, const std::string& fix);
};

// A mistake in the command line, the configuration or the data. The process ends with exit code 2 instead of 1. what()
// leaves out the place in octet's source, since the mistake is not there.
class UsageError : public Error {
 public:
  UsageError(const char* file, int line, const std::string& what, const std::string& fix);
};

}  // namespace octet

// REQUIRE(condition, how to fix it, what went wrong...)
#define REQUIRE(condition, fix, ...)                                            \
  do {                                                                          \
    if (!(condition)) [[unlikely]]                                              \
      throw ::octet::Error(__FILE__, __LINE__, ::octet::say(__VA_ARGS__), fix); \
  } while (0)

#define REQUIRE_USAGE(condition, fix, ...)                                           \
  do {                                                                               \
    if (!(condition)) [[unlikely]]                                                   \
      throw ::octet::UsageError(__FILE__, __LINE__, ::octet::say(__VA_ARGS__), fix); \
  } while (0)
