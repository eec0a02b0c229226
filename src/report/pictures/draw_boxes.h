// Draws boxes with labels into pictures: a color for each class, text on a background of that color.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "src/data/images/raster.h"
#include "src/objects.h"

namespace octet {

struct DrawnBox {
  BoxInFile box;       // in pixels of the picture before it is enlarged
  int32_t label = 0;   // chooses the color
  std::string text;    // beside the box: "dog 0.98"
  bool faint = false;  // dashed: a crowd, a difficult object, or what is drawn beside the main boxes
};

// The objects of an image. Crowds and difficult objects are dashed, and their text says so.
std::vector<DrawnBox> boxes_of(const AnnotatedImage&, std::span<const std::string> classes);
// What a network found there, with scores. Detections below `least` are left out.
std::vector<DrawnBox> boxes_of(std::span<const Detection>, std::span<const std::string> classes, double least);

// `image`, 8-bit RGB, with the boxes. A small picture is enlarged first, so that the texts can be read. Boxes are
// clipped to the picture; a box outside of it is not drawn.
Raster with_boxes(const Raster& image, std::span<const DrawnBox> boxes);

// The color of a class, RGB. Neighbouring labels have colors that differ well.
Rgb color_of_label(int32_t label);

// Two pictures beside each other, such as predictions and truth, with a line of text above each.
Raster side_by_side(const Raster& left, const std::string& left_title, const Raster& right,
                    const std::string& right_title);

// A JPEG as a "data:" address for a page: the picture with its boxes, its longer side at most `longest_side` pixels.
// Without boxes a small picture is not enlarged.
std::string page_picture(const Raster& rgb, std::vector<DrawnBox> boxes, int longest_side);

// Writes RGB as PNG. The file is complete or absent.
void write_picture(const std::string& path, const Raster& rgb);

}  // namespace octet
