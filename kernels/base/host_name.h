// The name of the machine that runs this process.
#pragma once
#include <unistd.h>

#include <string>

namespace octet {

inline std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace octet
