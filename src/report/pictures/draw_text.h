// Text in pictures, in any script for which the machine has a font.
#pragma once
#include <string>

#include "src/data/images/raster.h"

namespace octet {

// A line of text as pixels: how much of each its letters cover, 0 to 255, in one channel. height: of a line, in pixels.
// Control characters and bytes that are not UTF-8 are drawn as signs of their own.
// Empty where Pango is not installed, of which a warning tells.
Raster letters_of_text(const std::string& text, int height);

}  // namespace octet
