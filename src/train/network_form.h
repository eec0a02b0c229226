// Whether weights are of the form that a network has on the images of a recipe, see form_of().
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "src/config/config.h"
#include "src/weights/safetensors.h"

namespace octet {

// The side of the images, in pixels, on which octet trained the weights of a file. Empty: unknown.
std::optional<int64_t> trained_side(const SafetensorsFile&, const std::string& path);
// For weights that answer as they are. UsageError: they are of another form. A file that does not say its images may be
// of any.
void require_same_form(const SafetensorsFile&, const std::string& path, const Config&);
// For weights that go on to be trained, which a change of images may need.
void warn_of_other_form(const SafetensorsFile&, const std::string& path, const Config&);

}  // namespace octet
