// Files of weights say what the outputs of their network mean.
#pragma once
#include <map>
#include <string>

#include "src/data/loader.h"
#include "src/weights/safetensors.h"

namespace octet {

// Adds `classes`, a JSON list of names, and `category_ids`, one of numbers; each where it is known.
void add_classes(const Classes&, std::map<std::string, std::string>& metadata);
// What add_classes() has written; empty for files without it. UsageError: octet did not write it.
Classes read_classes(const SafetensorsFile&, const std::string& path);

}  // namespace octet
