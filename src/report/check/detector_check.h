// How a recipe's detector fits a data set: its canvases and its anchors.
#pragma once
#include <array>
#include <string>

#include "src/config/config.h"
#include "src/objects.h"

namespace octet {

// For people: the canvases with their images, the share of the objects that some anchor overlaps enough, the sizes of
// objects on the canvases, and anchor sizes that fit them. splits: of training and of the test set; images of unknown
// size are left out. config: of a detector. UsageError: the recipe's canvases or anchors are impossible.
std::string detector_page(const Config&, const std::array<Annotations, 2>& splits);

}  // namespace octet
