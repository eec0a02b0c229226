// What a data set of image files holds, and what is wrong with it.
#pragma once
#include <string>
#include <vector>

#include "src/config/config.h"

namespace octet {

struct DataCheck {
  std::string page;                   // for people
  std::vector<std::string> errors;    // what a training would refuse; empty: nothing
  std::vector<std::string> warnings;  // what trains, but perhaps not as meant
};
// Reads both splits: annotations and every image file, or a folder of images. UsageError: the annotations cannot be
// read, or the data are neither.
DataCheck check_data(const Config&);

}  // namespace octet
