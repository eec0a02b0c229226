// A sample is pixels and targets; a task says which targets it has.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/shared/boxes.h"

namespace octet {

// The objects on a batch's images. Boxes are in pixels of the network's input, after resizing and flipping.
struct Truth {
  // A mosaic of several images counts as a file that has the size of its content.
  struct Image {
    int64_t index = 0;                              // in the data set
    int32_t width = 0, height = 0;                  // of the file
    int32_t content_width = 0, content_height = 0;  // the part of the input that the image covers, from its top left
    double scale_x = 1, scale_y = 1;                // content / file
    bool flipped = false;                           // left and right
    uint32_t first = 0, count = 0;                  // its objects
  };
  struct Object {
    Box box;
    int32_t label = 0;  // in [0, classes)
  };
  std::vector<Image> images;
  std::vector<Object> objects;  // of all images in order; only those that train
};

// What losses compare the network's answers with, for the samples of this rank's batch; in the host's memory.
struct Targets {
  const int32_t* labels = nullptr;  // (samples) the class of each; -1: counts in no loss
  // Of samples that are mixed of two: the class of the other, and the share of the first, 0 .. 1. Null: none is mixed.
  const int32_t* other_labels = nullptr;
  const float* shares = nullptr;
  const Truth* truth = nullptr;  // null: the task has no objects
};

// The samples that one rank computes in a step.
struct Batch {
  // (count, H, W, 4) u8, see PixelScale; where training mixes by mixup, (count, H, W, 3) f32, normalized. Of the
  // canvas' shape; in the host's memory.
  const void* images = nullptr;
  Targets targets = {};                   // (count); a padded sample, or a bad image of zeros, counts in no loss
  std::span<const int64_t> samples = {};  // (count) the index of each in the data set; -1: padded, or a bad image
  int64_t count = 0;                      // this rank's share, always the same
  int64_t first = 0;                      // global index of this rank's first sample in the global batch
  int64_t epoch = 0, step = 0;            // in evaluation 0, and the batch's number in the pass
  int canvas = 0;                         // of the images, see Dataset::canvases()
};

}  // namespace octet
