// Keys of a recipe that only some networks read.
#pragma once
#include "src/config/config.h"

namespace octet {

// UsageError: a key has another value than its default, and the network model.name does not read it. The message names
// the networks that do.
void refuse_unread_keys(const Config&);

}  // namespace octet
