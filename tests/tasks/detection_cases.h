// Objects and detections that tests/golden/make_detection_figures.py draws too, number by number.
#pragma once
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/objects.h"
#include "tests/golden/golden.h"

namespace octet::cases {

class Draws {
 public:
  explicit Draws(uint32_t salt) : salt_(salt) {}
  double next() { return double(golden::value(count_++, salt_)) + 0.5; }  // a multiple of 2^-24 in [0, 1)
  int below(int count) { return static_cast<int>(std::floor(next() * count)); }

 private:
  uint32_t salt_, count_ = 0;
};

// Boxes have whole corners. The last class has no objects.
inline Annotations drawn_truth(uint32_t salt) {
  Draws draws(salt);
  Annotations truth{.classes = {"0", "1", "2", "3", "4", "5"}, .category_ids = {1, 2, 3, 4, 5, 6}, .images = {}};
  for (int i = 0; i < 40; ++i) {
    AnnotatedImage image{.id = (7 * i + 3) % 40 + 1, .name = "", .path = "", .objects = {}};
    for (int left = draws.below(8); left > 0; --left) {
      Object object;
      object.label = draws.below(5);
      object.box.x = draws.below(500);
      object.box.y = draws.below(380);
      const double a = draws.next(), b = draws.next(), c = draws.next(), d = draws.next();
      object.box.width = 4 + std::floor(a * b * 300);
      object.box.height = 4 + std::floor(c * d * 300);
      object.area = object.box.width * object.box.height * (0.5 + draws.next() / 2);
      const int kind = draws.below(16);
      object.crowd = kind == 0;
      object.difficult = kind == 1 || kind == 2;
      image.objects.push_back(object);
    }
    truth.images.push_back(image);
  }
  return truth;
}

inline double drawn_score(int number, Draws& draws) {
  const double score = draws.next();
  switch (number % 5) {
    case 1:
      return std::floor(score * 8) / 8;  // ties
    case 2:
      return 0.5;
    case 3:
      return score < 0.5 ? 0 : score;
    default:
      return score;
  }
}

inline BoxInFile near(const BoxInFile& box, double spread, Draws& draws) {
  BoxInFile moved;
  moved.x = box.x + (draws.next() - 0.5) * spread * box.width;
  moved.y = box.y + (draws.next() - 0.5) * spread * box.height;
  moved.width = box.width * (1 + (draws.next() - 0.5) * spread);
  moved.height = box.height * (1 + (draws.next() - 0.5) * spread);
  return moved;
}

// Near objects and elsewhere; with number % 3 = 0 some classes have none, with number % 5 = 4 three images have more
// than a hundred of one class. whole: corners are whole numbers.
inline std::vector<Detection> drawn_detections(const Annotations& truth, int number, bool whole) {
  Draws draws(1000 + number);
  const int classes = static_cast<int>(truth.classes.size());
  std::vector<Detection> found;
  const auto add = [&](int64_t image, int32_t label, BoxInFile box) {
    if (whole) box = {std::floor(box.x), std::floor(box.y), std::floor(box.width), std::floor(box.height)};
    found.push_back({.image = image, .label = label, .score = drawn_score(number, draws), .box = box});
  };
  for (size_t i = 0; i < truth.images.size(); ++i) {
    const std::vector<Object>& objects = truth.images[i].objects;
    for (const Object& object : objects) {
      if (number % 3 == 0 && object.label % 4 == 1) continue;
      for (int left = draws.below(3); left > 0; --left) {
        constexpr double spreads[] = {0, 0.1, 0.3};
        const double spread = spreads[draws.below(3)];
        const BoxInFile box = near(object.box, spread, draws);
        const bool other = draws.below(10) == 0;
        add(i, other ? draws.below(classes) : object.label, box);
      }
    }
    for (int left = draws.below(4); left > 0; --left) {
      const int label = draws.below(classes);
      const double x = draws.next() * 500, y = draws.next() * 400;
      const double width = 1 + draws.next() * 200, height = 1 + draws.next() * 200;
      add(i, label, {x, y, width, height});
    }
    if (number % 5 == 4 && i < 3 && !objects.empty())
      for (int left = 150; left > 0; --left) add(i, objects[0].label, near(objects[0].box, 0.6, draws));
  }
  return found;
}

// The rows of one list of tests/golden/detection_figures.json.
inline std::vector<std::vector<double>> golden_rows(const std::string& list) {
  std::ifstream file(OCTET_SOURCE_DIR "/tests/golden/detection_figures.json");
  return nlohmann::json::parse(file).at(list).get<std::vector<std::vector<double>>>();
}

inline constexpr double tolerance = 1e-8;  // the file has nine decimals; sums of means round differently

// Objects and detections for cases made by hand, on one image of one class.
struct Scene {
  Annotations truth{
      .classes = {"thing"}, .category_ids = {1}, .images = {{.id = 1, .name = "", .path = "", .objects = {}}}};
  std::vector<Detection> found;

  Object& object(BoxInFile box) {
    truth.images[0].objects.push_back({.box = box, .area = box.width * box.height});
    return truth.images[0].objects.back();
  }
  void detect(BoxInFile box, double score) { found.push_back({.image = 0, .label = 0, .score = score, .box = box}); }
};

}  // namespace octet::cases
