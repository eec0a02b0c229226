// What a data set of objects on images holds, and what is wrong with it.
#pragma once
#include <string>
#include <vector>

#include "src/config/config.h"

namespace octet {

struct DataCheck {
  std::string page;                 // for people
  std::vector<std::string> errors;  // what a training would refuse; empty: nothing
};
// Reads the annotations of both splits and every image file. UsageError: the annotations cannot be read.
DataCheck check_data(const Config&);

}  // namespace octet
