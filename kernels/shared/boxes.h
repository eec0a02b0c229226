// Boxes on images.
#pragma once

namespace octet {

// From the left and upper edge to the right and lower edge, in pixels; half-open: the width is x2 - x1. The left edge
// of the first pixel is 0.
struct Box {
  float x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  float width() const { return x2 - x1; }
  float height() const { return y2 - y1; }
  float area() const { return width() * height(); }
};

}  // namespace octet
