#include <algorithm>
#include <limits>

#include "src/tasks/detection/figures.h"

namespace octet {
namespace {

// The reference counts pixels from 1, and a box holds both of its corners.
struct Corners {
  double left, top, right, bottom;
  explicit Corners(const BoxInFile& box)
      : left(box.x + 1), top(box.y + 1), right(box.x + box.width), bottom(box.y + box.height) {}
  double area() const { return (right - left + 1) * (bottom - top + 1); }
};

double overlap(const Corners& a, const Corners& b) {
  const double width = std::max(std::min(a.right, b.right) - std::max(a.left, b.left) + 1, 0.0);
  const double height = std::max(std::min(a.bottom, b.bottom) - std::max(a.top, b.top) + 1, 0.0);
  const double both = width * height;
  return both == 0 ? 0 : both / (a.area() + b.area() - both);
}

struct Truth {
  const Object* object;
  bool taken = false;
};

enum class Outcome : uint8_t { wrong, found, ignored };

// truths: of the detection's class on its image. It finds an object that it overlaps by more than half.
Outcome outcome_of(const Detection& found, std::span<Truth> truths) {
  const Corners box(found.box);
  double most = -1;
  Truth* best = nullptr;  // the first of the nearest, difficult or taken ones too
  for (Truth& truth : truths) {
    const double here = overlap(Corners(truth.object->box), box);
    if (here <= most) continue;
    most = here;
    best = &truth;
  }
  if (!(most > 0.5)) return Outcome::wrong;
  if (best->object->difficult) return Outcome::ignored;
  if (best->taken) return Outcome::wrong;
  best->taken = true;
  return Outcome::found;
}

struct Curve {
  std::vector<double> recall, precision;  // after each detection
};

double eleven_points(const Curve& curve) {
  double sum = 0;
  for (int i = 0; i <= 10; ++i) {
    double best = 0;
    for (size_t d = 0; d < curve.recall.size(); ++d)
      if (curve.recall[d] >= i * 0.1) best = std::max(best, curve.precision[d]);  // 3 * 0.1 is more than 0.3
    sum += best / 11;
  }
  return sum;
}

// Under the falling envelope of precision.
double area_under(const Curve& curve) {
  double area = 0, envelope = 0;
  for (size_t d = curve.recall.size(); d-- > 0;) {
    envelope = std::max(envelope, curve.precision[d]);
    area += (curve.recall[d] - (d == 0 ? 0 : curve.recall[d - 1])) * envelope;
  }
  return area;
}

// The envelope at 101 recalls; 0 at those that are not reached.
std::vector<double> precision_at_recalls(const Curve& curve) {
  std::vector<double> at_recalls(101);
  double envelope = 0;
  size_t d = curve.recall.size();
  for (size_t point = at_recalls.size(); point-- > 0; at_recalls[point] = envelope)
    for (; d > 0 && curve.recall[d - 1] >= static_cast<double>(point) / 100; --d)
      envelope = std::max(envelope, curve.precision[d - 1]);
  return at_recalls;
}

// all: what this adds to, if the class has objects.
DetectionFigures::Class judge(const Annotations& annotations, int32_t label, std::vector<const Detection*>& detections,
                              Decisions& all) {
  DetectionFigures::Class result{.name = annotations.classes[label], .figures = {{"AP", -1}, {"AP11", -1}}};
  std::vector<std::vector<Truth>> truths(annotations.images.size());
  for (size_t i = 0; i < truths.size(); ++i)
    for (const Object& object : annotations.images[i].objects)
      if (object.label == label) {
        truths[i].push_back({&object});
        result.objects += object.difficult ? 0 : 1;
      }
  if (result.objects == 0) return result;
  std::ranges::stable_sort(detections, {}, &Detection::image);
  std::ranges::stable_sort(detections, std::greater<>(), &Detection::score);
  Curve curve;
  Decisions own{.detections = {}, .objects = result.objects};
  double found = 0, wrong = 0;
  for (const Detection* detection : detections) {
    const Outcome outcome = outcome_of(*detection, truths[detection->image]);
    found += outcome == Outcome::found;
    wrong += outcome == Outcome::wrong;
    if (outcome != Outcome::ignored) own.detections.push_back({detection->score, outcome == Outcome::found});
    curve.recall.push_back(found / static_cast<double>(result.objects));
    curve.precision.push_back(found / std::max(found + wrong, std::numeric_limits<double>::epsilon()));
  }
  result.figures = {{"AP", area_under(curve)}, {"AP11", eleven_points(curve)}};
  result.precision = precision_at_recalls(curve);
  result.best = own.best();
  all.add(own);
  return result;
}

}  // namespace

DetectionFigures voc_ap(const Annotations& annotations, std::span<const Detection> detections) {
  std::vector<std::vector<const Detection*>> by_class(annotations.classes.size());
  for (const Detection& found : detections) by_class[found.label].push_back(&found);
  DetectionFigures result;
  Decisions all;
  double area = 0, eleven = 0;
  int classes = 0;
  for (size_t label = 0; label < by_class.size(); ++label) {
    result.classes.push_back(judge(annotations, static_cast<int32_t>(label), by_class[label], all));
    if (result.classes.back().objects == 0) continue;
    area += result.classes.back().figures[0].value;
    eleven += result.classes.back().figures[1].value;
    ++classes;
  }
  area = classes > 0 ? area / classes : -1;
  eleven = classes > 0 ? eleven / classes : -1;
  result.figures = {{"mAP", area}, {"AP50", area}, {"mAP11", eleven}};
  result.at_one_score = all.best();
  return result;
}

}  // namespace octet
