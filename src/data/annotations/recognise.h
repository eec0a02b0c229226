// Which format the annotations in a folder have.
#pragma once
#include <string>

#include "src/config/config.h"

namespace octet {

// Sets data.root, data.name and the keys that name files of a data set with boxes, so that it can be trained on.
// Returns by what it was recognised, such as "data.yaml"; empty: by nothing, and `data` is to be thrown away.
std::string recognise_annotations(const std::string& folder, Config::Data& data);

// The same of a folder whose images are only judged: also a COCO file for evaluation alone, or one JSON file beside the
// images or in annotations/.
std::string recognise_annotations_to_judge(const std::string& folder, Config::Data& data);

}  // namespace octet
