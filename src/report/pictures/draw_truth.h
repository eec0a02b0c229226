// Pictures of a data set with its annotated boxes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "src/config/config.h"

namespace octet {

struct DrawOptions {
  std::string output;      // a directory; it is made if it is absent
  int64_t count = 16;      // pictures, evenly spread over the data set
  bool train = false;      // of the training set; otherwise of the test set
  bool augmented = false;  // as a network reads them in the first epoch of a training, with the objects that train;
                           // otherwise as the files hold them, with all objects
};
// Writes "000012-NAME.png" for image 12. Returns the number of pictures. UsageError: the data has no objects.
int64_t draw_truth(const Config&, const DrawOptions&);

// "FOLDER/000012-NAME.png" for image 12; what a file name should not hold is replaced.
std::string picture_path(const std::string& folder, int64_t index, const std::string& image);
// Creates a folder for pictures. UsageError: it cannot.
void make_output(const std::string& folder);
// `count` of the indices 0 .. size - 1, or all, evenly spread and rising.
std::vector<int64_t> spread(int64_t size, int64_t count);

}  // namespace octet
