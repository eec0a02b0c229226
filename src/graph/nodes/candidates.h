// What the nodes that choose among boxes share: proposals and detections.
#pragma once
#include <span>
#include <vector>

#include "src/graph/nodes/detection.h"

namespace octet {

// A box that a network gives a score.
struct Candidate {
  Box box;
  float score = 0;
  int32_t group = 0;  // candidates of other groups do not suppress it: a class, or a level
};

// The indices of at most `most` candidates, the best first: of two of a group that overlap by more than `overlap` the
// worse one is dropped. Of equal scores the first is the better one.
std::vector<int32_t> best_candidates(std::span<const Candidate>, float overlap, int64_t most);

// Adds the best candidates of an image, whose groups are classes, in pixels of the image's file.
void add_detections(std::span<const Candidate>, const DetectOptions&, const Truth::Image&, std::vector<Detection>&);

// The f32 values of an edge in the host's memory; waits for the device. copy: holds them if the device's memory is
// another one.
std::span<const float> host_values(const Step&, Edge, std::vector<float>& copy);

// The weights of boxes relative to regions (torchvision, detectron2).
inline constexpr BoxWeights region_weights{10, 10, 5, 5};

}  // namespace octet
