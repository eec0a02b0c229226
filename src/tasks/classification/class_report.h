// What the answers of a classifier are worth, class by class.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/tasks/classification/class_answers.h"

namespace octet {

// Shares of images, 0 .. 1. A quotient of 0 by 0 is 0.
struct ClassFigures {
  double precision = 0;  // of the images that were taken for the class, those of the class
  double recall = 0;     // of the images of the class, those that were taken for it
  double f1 = 0;         // their harmonic mean
};

struct ClassReport {
  struct Class : ClassFigures {
    std::string name;
    int64_t support = 0, predicted = 0, right = 0;  // images of the class, images taken for it, and both
  };
  std::vector<Class> classes;  // by label; without images, too
  int64_t images = 0;
  double accuracy = 0;
  // Means over the classes. macro: each counts once, also one without images, whose figures are 0. weighted: by the
  // images of each.
  ClassFigures macro, weighted;
  std::map<std::pair<size_t, size_t>, int64_t> counts;  // images by label and answer, where there are any
};

// As scikit-learn's classification_report with zero_division=0 and all classes as its labels. Classes without names are
// named by their numbers; where the answers know no number of classes, the greatest label or answer is the last one.
ClassReport class_report(const ClassAnswers&);

// For people, within 80 columns: the classes, accuracy and the means. Of more than 30 classes, those with the least and
// with the greatest F1 among those that have images.
std::string class_table(const ClassReport&);
// One JSON object: accuracy, macro_average, weighted_average, classes, and confusion, which has for each class the
// images by answer, where there are any.
std::string class_json(const ClassReport&);
// RFC 4180, a line for each class: class, precision, recall, F1, support, predicted, right.
std::string class_csv(const ClassReport&);

}  // namespace octet
