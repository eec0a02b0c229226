#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

#include "src/tasks/detection/figures.h"

namespace octet {
namespace {

constexpr int thresholds = 10, recalls = 101, ranges = 4;
constexpr std::array<size_t, 3> limits = {1, 10, 100};  // detections of one class on one image that count
constexpr size_t most = limits.back();

// The least overlap of a match: 0.5 to 0.95 as numpy.linspace rounds them, which 0.05 i + 0.5 does not in each last
// bit.
double overlap_of(int threshold) { return threshold == thresholds - 1 ? 0.95 : threshold * ((0.95 - 0.5) / 9) + 0.5; }
double recall_of(int point) { return point == recalls - 1 ? 1 : point * 0.01; }

// Of an area in square pixels; both ends belong to the range, and so does NaN.
struct Range {
  double least, greatest;
  bool holds(double area) const { return !(area < least || area > greatest); }
};
constexpr Range range_of[ranges] = {{0, 1e10}, {0, 1024}, {1024, 9216}, {9216, 1e10}};  // all, small, medium, large

struct Mean {
  double sum = 0;
  int64_t count = 0;
  void add(double value) {
    sum += value;
    ++count;
  }
  double value() const { return count == 0 ? -1 : sum / static_cast<double>(count); }
};

enum class Outcome : uint8_t { wrong, found, ignored };

// What became of the detections of one class, image after image by rising id.
struct Judged {
  std::vector<double> scores;
  std::vector<uint8_t> ranks;  // in their image, from 0
  std::array<std::array<std::vector<Outcome>, thresholds>, ranges> outcomes;
  std::array<int64_t, ranges> objects{};  // that count
};

// One class on one image.
struct Scene {
  std::vector<const Object*> objects;
  std::vector<const Detection*> detections;  // by falling score
};

double overlap(const BoxInFile& found, const Object& object) {
  const BoxInFile& box = object.box;
  const double width = std::min(found.x + found.width, box.x + box.width) - std::max(found.x, box.x);
  const double height = std::min(found.y + found.height, box.y + box.height) - std::max(found.y, box.y);
  if (width <= 0 || height <= 0) return 0;
  const double both = width * height, area = found.width * found.height;
  return both / (object.crowd ? area : area + box.width * box.height - both);
}

// Each detection, the best first, takes the object that it overlaps most, and of equals the last. An object is taken
// once, a crowd any number of times. Objects that do not count are taken only where no other is near enough.
// order: of the objects, those that count first. overlaps: (detections, objects).
void match(const Scene& scene, const std::vector<uint32_t>& order, size_t counted, const Range& range, double least,
           const std::vector<double>& overlaps, std::vector<Outcome>& outcomes) {
  std::vector<bool> taken(order.size());
  for (size_t d = 0; d < scene.detections.size(); ++d) {
    double best = std::min(least, 1 - 1e-10);
    size_t chosen = order.size();
    for (size_t i = 0; i < order.size(); ++i) {
      if (taken[i] && !scene.objects[order[i]]->crowd) continue;
      if (i >= counted && chosen < counted) break;
      const double here = overlaps[d * order.size() + order[i]];
      if (here < best) continue;
      best = here;
      chosen = i;
    }
    const BoxInFile& box = scene.detections[d]->box;
    if (chosen < order.size()) taken[chosen] = true;
    const bool counts = chosen < order.size() ? chosen < counted : range.holds(box.width * box.height);
    outcomes.push_back(!counts ? Outcome::ignored : chosen < order.size() ? Outcome::found : Outcome::wrong);
  }
}

void judge(const Scene& scene, Judged& judged) {
  const size_t objects = scene.objects.size();
  std::vector<double> overlaps;
  for (size_t d = 0; d < scene.detections.size(); ++d) {
    judged.scores.push_back(scene.detections[d]->score);
    judged.ranks.push_back(static_cast<uint8_t>(d));
    for (const Object* object : scene.objects) overlaps.push_back(overlap(scene.detections[d]->box, *object));
  }
  for (int r = 0; r < ranges; ++r) {
    std::vector<uint32_t> order(objects);
    std::iota(order.begin(), order.end(), 0U);
    const auto ignored = std::stable_partition(order.begin(), order.end(), [&](uint32_t i) {
      return !scene.objects[i]->crowd && range_of[r].holds(scene.objects[i]->area);
    });
    const size_t counted = ignored - order.begin();
    judged.objects[r] += static_cast<int64_t>(counted);
    for (int t = 0; t < thresholds; ++t)
      match(scene, order, counted, range_of[r], overlap_of(t), overlaps, judged.outcomes[r][t]);
  }
}

// Share of the objects that the first `limit` detections of each image find.
double recall(const Judged& judged, const std::vector<Outcome>& outcomes, int64_t objects, size_t limit) {
  int64_t found = 0;
  for (size_t d = 0; d < outcomes.size(); ++d) found += outcomes[d] == Outcome::found && judged.ranks[d] < limit;
  return static_cast<double>(found) / static_cast<double>(objects);
}

// The best precision at each of 101 recalls or a higher one; 0 at those that are not reached. order: by falling score.
std::vector<double> precision_at_recalls(const std::vector<Outcome>& outcomes, const std::vector<uint32_t>& order,
                                         int64_t objects) {
  std::vector<double> reached, precision;
  double found = 0, wrong = 0;
  for (const uint32_t d : order) {
    found += outcomes[d] == Outcome::found;
    wrong += outcomes[d] == Outcome::wrong;
    reached.push_back(found / static_cast<double>(objects));
    precision.push_back(found / (wrong + found + 0x1p-52));
  }
  for (size_t i = precision.size(); i-- > 1;) precision[i - 1] = std::max(precision[i - 1], precision[i]);
  std::vector<double> at_recalls(recalls);
  for (int point = 0; point < recalls; ++point) {
    const auto first = std::ranges::lower_bound(reached, recall_of(point));
    if (first != reached.end()) at_recalls[point] = precision[first - reached.begin()];
  }
  return at_recalls;
}

Decisions decisions_of(const Judged& judged) {
  const std::vector<Outcome>& outcomes = judged.outcomes[0][0];
  Decisions decisions{.detections = {}, .objects = judged.objects[0]};
  for (size_t d = 0; d < outcomes.size(); ++d)
    if (outcomes[d] != Outcome::ignored)
      decisions.detections.push_back({judged.scores[d], outcomes[d] == Outcome::found});
  return decisions;
}

// Means over classes and thresholds, in the order of the figures.
struct Figures {
  Mean precision[ranges], precision50, precision75;
  Mean recall_within[limits.size()], recall_by_range[ranges];
  Decisions decisions;  // of all classes with objects

  DetectionFigures::Class add(const std::string& name, const Judged& judged) {
    std::vector<uint32_t> order(judged.scores.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, std::greater<>(), [&](uint32_t d) { return judged.scores[d]; });
    DetectionFigures::Class by_class{name, judged.objects[0], {{"AP", -1}, {"AP50", -1}}};
    for (int r = 0; r < ranges; ++r) {
      const int64_t objects = judged.objects[r];
      if (objects == 0) continue;
      Mean ap;
      for (int t = 0; t < thresholds; ++t) {
        const std::vector<Outcome>& outcomes = judged.outcomes[r][t];
        std::vector<double> at_recalls = precision_at_recalls(outcomes, order, objects);
        const double value = std::accumulate(at_recalls.begin(), at_recalls.end(), 0.0) / recalls;
        ap.add(value);
        precision[r].add(value);
        recall_by_range[r].add(recall(judged, outcomes, objects, most));
        if (r != 0) continue;
        if (t == 0) {
          precision50.add(by_class.figures[1].value = value);
          by_class.precision = std::move(at_recalls);
        }
        if (t == 5) precision75.add(value);
        for (size_t limit = 0; limit < limits.size(); ++limit)
          recall_within[limit].add(recall(judged, outcomes, objects, limits[limit]));
      }
      if (r == 0) by_class.figures[0].value = ap.value();
    }
    if (judged.objects[0] == 0) return by_class;
    const Decisions own = decisions_of(judged);
    by_class.best = own.best();
    decisions.add(own);
    return by_class;
  }

  Scalars all() const {
    return {
        {"AP", precision[0].value()},        {"AP50", precision50.value()},       {"AP75", precision75.value()},
        {"APs", precision[1].value()},       {"APm", precision[2].value()},       {"APl", precision[3].value()},
        {"AR1", recall_within[0].value()},   {"AR10", recall_within[1].value()},  {"AR100", recall_within[2].value()},
        {"ARs", recall_by_range[1].value()}, {"ARm", recall_by_range[2].value()}, {"ARl", recall_by_range[3].value()}};
  }
};

// Positions of the images when they are sorted by id.
std::vector<uint32_t> positions_by_id(const std::vector<AnnotatedImage>& images) {
  std::vector<uint32_t> order(images.size()), positions(images.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, {}, [&](uint32_t i) { return images[i].id; });
  for (uint32_t position = 0; position < order.size(); ++position) positions[order[position]] = position;
  return positions;
}

// What is on an image, by class and then by the image's position.
struct Placed {
  int32_t label;
  uint32_t position;
  const Object* object;        // null: a detection
  const Detection* detection;  // null: an object
  auto key() const { return std::pair(label, position); }
};

}  // namespace

DetectionFigures coco_ap(const Annotations& annotations, std::span<const Detection> detections) {
  const std::vector<uint32_t> positions = positions_by_id(annotations.images);
  std::vector<Placed> placed;
  for (size_t i = 0; i < annotations.images.size(); ++i)
    for (const Object& object : annotations.images[i].objects)
      placed.push_back({object.label, positions[i], &object, nullptr});
  for (const Detection& found : detections) placed.push_back({found.label, positions[found.image], nullptr, &found});
  std::ranges::stable_sort(placed, {}, &Placed::key);
  Figures figures;
  DetectionFigures result;
  auto at = placed.begin();
  for (int32_t label = 0; label < static_cast<int32_t>(annotations.classes.size()); ++label) {
    Judged judged;
    while (at != placed.end() && at->label == label) {
      Scene scene;
      for (const auto key = at->key(); at != placed.end() && at->key() == key; ++at) {
        if (at->object) scene.objects.push_back(at->object);
        if (at->detection) scene.detections.push_back(at->detection);
      }
      std::ranges::stable_sort(scene.detections, std::greater<>(), &Detection::score);
      scene.detections.resize(std::min(scene.detections.size(), most));
      judge(scene, judged);
    }
    result.classes.push_back(figures.add(annotations.classes[label], judged));
  }
  result.figures = figures.all();
  result.at_one_score = figures.decisions.best();
  return result;
}

}  // namespace octet
