// Detections in COCO's results format: [{"image_id": 1, "category_id": 2, "bbox": [x, y, width, height], "score":
// 0.9}].
#pragma once
#include <span>
#include <string>
#include <vector>

#include "src/objects.h"

namespace octet {

// image_id is the id of an image or its name, category_id the id of a category or its name; of categories that share a
// name, the one that has objects, if the others have none. For VOC these are the name without its ending and the name of
// the class, or their numbers from 1. The order is that of the file.
// UsageError: the file is missing or damaged, an image or a category is unknown, several categories are meant, or a box
// has a negative size.
std::vector<Detection> read_detections(const std::string& file, const Annotations&);

// Writes detections with the ids of images and categories that the annotations have, so without those of classes that
// the test set lacks: they count in no figure. Coordinates have two decimals and scores five, as is common. The file is
// complete or absent. FileError: it cannot be written.
void write_detections(const std::string& file, const Annotations&, std::span<const Detection>);

}  // namespace octet
