// What makes objects of a dense detector's answers, in standard operations of ONNX: detect() of
// src/graph/nodes/detection.h for images that fill their canvas.
#pragma once
#include <string>
#include <vector>

#include "src/deploy/network.h"
#include "src/deploy/onnx_graph.h"

namespace octet {

// The names of all its nodes and constants begin so.
inline constexpr char detector_prefix[] = "detector.";

// Appends the operations and the model's outputs, the best first: `boxes` N x D x 4 float32 (left, top, right, bottom
// in pixels of the input), `scores` N x D float32 and `labels` N x D int64. Where an image has fewer than D objects the
// rest has score 0. logits, deltas: by level, the names of the tensors that the last layers write, N x C x H x W.
void append_detector(OnnxGraph&, const DenseDetectOptions&, const Shape& canvas, const std::vector<std::string>& logits,
                     const std::vector<std::string>& deltas);

// The rule as text for the model's metadata, and back. The edges are those of the network's tensors.
std::string detector_text(const DenseDetectOptions&);
// UsageError: it is no such text. path: for messages.
DenseDetectOptions read_detector(const std::string& text, const std::string& path);

}  // namespace octet
