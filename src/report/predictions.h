// Writes what a network says of images, for people and for programs.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "src/train/predictor.h"

namespace octet {

struct RankedClass {  // one of the most probable classes of an image
  size_t label = 0;
  float probability = 0;
};

struct PredictionReport {
  const Predictor& network;
  const Annotations& images;  // those that were asked for
  std::span<const Prediction> predictions;
  int64_t top = 5;      // classes of an image, the most probable first
  bool logits = false;  // add those of all classes to the JSON objects

  // One JSON object for each detection: {"image_id": 1, "file_name": "a.jpg", "category_id": 3, "class": "cat", "bbox":
  // [x, y, width, height], "score": 0.98765}, COCO's results format with two names more. image_id is the position of
  // the image in `images` from 1, and category_id the id of the data that the network was trained on.
  // For a classifier one for each image: {"image": "a.jpg", "top": [{"index": 3, "class": "cat", "probability": 0.97},
  // ...]}.
  std::vector<std::string> objects() const;
  // The same as text: an image with its objects, or with its most probable classes.
  std::string text() const;
  // A table as RFC 4180 has it, with a line of names: image, rank, index, class, probability of a classifier; image,
  // category_id, class, x, y, width, height, score of a detector.
  std::string csv() const;

  std::vector<RankedClass> answers(const Prediction&) const;  // of a classifier
  const std::string& class_name(size_t label) const { return network.classes().names[label]; }
  int64_t category_id(size_t label) const;
  const AnnotatedImage& image(const Prediction& of) const { return images.images[size_t(of.image)]; }
};

}  // namespace octet
