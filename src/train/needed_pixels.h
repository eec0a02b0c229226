// The normalization of pixels that weights need.
#pragma once
#include <array>
#include <optional>
#include <string>

#include "src/config/config.h"
#include "src/normalization.h"
#include "src/weights/safetensors.h"

namespace octet {

struct NeededPixels {
  Normalization normalization;
  std::string source;  // who says so: "the file", "whoever published weights of inception_v3"
};
// Those of the training that wrote the file; if another program wrote it, those of the network's published weights.
// Empty: unknown.
std::optional<NeededPixels> needed_pixels(const SafetensorsFile&, const std::string& path, const Config::Model&);
// "[0.5, 0.5, 0.5]", as a recipe has it.
std::string list_text(const std::array<float, 3>&);
// Warns if the images of the recipe are normalized in another way than the weights need.
void warn_of_other_pixels(const SafetensorsFile&, const std::string& path, const Config&);

}  // namespace octet
