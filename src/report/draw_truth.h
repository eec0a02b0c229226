// Pictures of a data set with its annotated boxes.
#pragma once
#include <cstdint>
#include <string>

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

}  // namespace octet
