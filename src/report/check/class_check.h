// What a folder of images with classes holds, and what is wrong with it.
#pragma once
#include "src/report/check/data_check.h"

namespace octet {

// Reads and decodes every image of both splits.
DataCheck check_image_folder(const Config&);

}  // namespace octet
