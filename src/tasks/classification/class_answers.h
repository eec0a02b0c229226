// What a classifier answered to each image of the test set: RUN/evaluation.json.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/sample.h"

namespace octet {

struct Answer {
  int64_t image = 0;  // index in the test set
  int32_t label = 0, predicted = 0;
  float probability = 0;  // of the predicted class; may be NaN
};
// The answers to a batch, from the probabilities of its images by class.
std::vector<Answer> answers_of(const Batch&, std::span<const float> probabilities);

struct ClassAnswers {
  int64_t step = 0;                  // of the evaluation
  int64_t images = 0;                // of the test set
  std::vector<std::string> classes;  // names by label; empty: the classes have no names
  std::vector<std::string> files;    // by image, below the folder of the test set; empty: the images have no files
  std::vector<Answer> answers;       // by image; of those that could be read
};

inline constexpr int64_t most_answers = 100'000;  // images of a test set whose answers are kept

// {"step": 390, "images": 10000, "classes": ["cat", ...], "label": [3, ...], "predicted": [5, ...], "probability":
// [0.9812, ...], "file": ["cat/a.jpg", ...]}: lists with a value for each image. An image that could not be read has
// label and prediction -1. Without names of files there is no list `file`. FileError: the file cannot be written.
void write_answers(const std::string& run_directory, const ClassAnswers&);
// Empty: there is no such file. UsageError: octet did not write it: its lists have other lengths, a class is none of
// those that it names.
std::optional<ClassAnswers> read_answers(const std::string& run_directory);
// The content of such a file, which `file` names in messages.
ClassAnswers parse_answers(const std::string& text, const std::string& file);

}  // namespace octet
