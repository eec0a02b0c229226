// The parts of the pages of `octet check`.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/data/sources/examine.h"
#include "src/objects.h"
#include "src/report/check/data_check.h"

namespace octet {

inline constexpr const char* split_names[] = {"train", "test"};

// A name and a number of each split.
std::string check_row(const std::string& name, int64_t train, int64_t test);
// What was found: its number, and the first few.
std::string check_list(const std::string& title, const std::vector<std::string>& found);
// Adds readable files that are named as another format, and those of which the decoder warns.
void check_odd_images(const std::array<std::vector<std::string>, 2>& paths,
                      const std::array<std::vector<ImageFacts>, 2>& facts, DataCheck&);
// Warns of classes of the training set that the test set lacks.
void warn_of_absent(const std::vector<std::string>& absent, size_t classes, DataCheck&);
// Adds readable files of equal bytes, each with the first of its kind, in both splits and in one.
void check_duplicates(const std::array<std::vector<std::string>, 2>& paths,
                      const std::array<std::vector<ImageFacts>, 2>& facts, DataCheck&);

// What a folder of images with classes holds, and what is wrong with it. Decodes every image of both splits.
DataCheck check_image_folder(const Config&);

// Adds how a recipe's detector fits a data set: the canvases with their images, objects too small for them, the share
// of the objects that some anchor overlaps enough, the sizes of objects on the canvases, and anchor sizes that fit
// them. splits: of training and of the test set; images of unknown size are left out. UsageError: the recipe's canvases
// or anchors are impossible.
void check_detector(const Config&, const std::array<Annotations, 2>& splits, DataCheck&);

}  // namespace octet
