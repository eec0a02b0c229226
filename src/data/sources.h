// The data sets that open_datasets() knows, one file each. training: false: the test set alone.
#pragma once
#include <span>
#include <string>

#include "src/data/loader.h"
#include "src/data/pixels.h"

namespace octet {

// data.root is the folder of the binary release (data_batch_1..5.bin, test_batch.bin), or holds cifar-10-batches-bin.
// Source of the layout: https://www.cs.toronto.edu/~kriz/cifar.html
Datasets open_cifar10(const Config&, bool training);
// Appends the records of one file, given as its bytes, to `pixels`. Throws Error naming `file` unless it is exactly
// `records` records of 1 label below 10 and 3072 pixels (red, green, blue planes).
void parse_cifar10(std::span<const uint8_t> bytes, const std::string& file, int64_t records, Pixels& pixels);

// data.root holds train/<class>/*.jpg|jpeg|png and val/ or test/ with the same classes, in any case of letters.
Datasets open_image_folder(const Config&, bool training);

// data.root holds train.pack and val.pack, which `octet pack` wrote.
Datasets open_packed(const Config&, bool training);

// Ten classes of shapes drawn by octet itself: trains at once, without any download.
Datasets open_shapes(const Config&, bool training);

// Random pictures and labels of any size and number of classes: for benchmarks, reading costs a copy.
Datasets open_synthetic(const Config&, bool training);

}  // namespace octet
