// Files of weights say how the pixels of their training were normalized.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "src/config/config.h"
#include "src/normalization.h"
#include "src/weights/safetensors.h"

namespace octet {

// The normalization of the images of a recipe: data.mean and data.deviation, or those of the data source. UsageError:
// there is no such source, or it needs a data.root.
Normalization normalization_of(const Config::Data&);
// Adds `normalization`, a JSON object of two lists of three numbers, `mean` and `deviation`, of pixel / 255.
void add_normalization(const Normalization&, std::map<std::string, std::string>& metadata);
// What add_normalization() has written; of a file without it, that of its recipe. Empty: the file has neither, since
// another program wrote it. UsageError: octet did not write the entry.
std::optional<Normalization> read_normalization(const SafetensorsFile&, const std::string& path);

}  // namespace octet
