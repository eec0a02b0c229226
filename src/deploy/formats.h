// The files that an integer network can be exported to. A format is one row of the table in formats.cpp.
#pragma once
#include <string>

#include "src/deploy/network.h"

namespace octet {

inline constexpr const char* c_mark = "written by octet";  // in the first comment of every file in C
inline constexpr const char* example_ending = "_main.c";   // of a program beside a network in C

struct FileFormat {
  const char *name, *runs_on;
  const char* ending;         // of the file's name, by which programs know it
  bool needs_ending;          // of the name that a user gives
  const char *takes, *gives;  // images and answers, in the file's description
  // The network as the format has it, which may round more than the one that was trained.
  IntegerNetwork (*form)(IntegerNetwork);
  // name: that of the file, without folder and ending.
  std::vector<NamedText> (*write)(const NetworkFile&, const std::string& name);
  // Null: only compilers read it.
  NetworkFile (*read)(const std::string& content, const std::string& path);
};
// UsageError: there is no such format.
const FileFormat& file_format(const std::string& name);
std::string file_format_names();  // separated by commas

}  // namespace octet
