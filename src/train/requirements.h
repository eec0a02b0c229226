// What a recipe must say to be trained.
#pragma once
#include "src/config/config.h"

namespace octet {

// UsageError: keys that belong together are not all set.
void require_what_training_needs(const Config&);

}  // namespace octet
