#include "src/report/check/placement.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/data/annotations/annotations.h"
#include "src/data/sources/detection_set.h"

namespace octet {
namespace {

class AnchorSearch {
 public:
  explicit AnchorSearch(const AnchorRule& rule) : levels_(rule.levels) {
    for (const AnchorLevel& level : levels_) cells_.push_back(anchor_cell(level, {}));
  }

  // The largest overlap of the box with an anchor whose center is on the image. Of the anchors of one form, the one
  // whose center is nearest to that of the box overlaps it most.
  float best(const Box& box, ImageSize content) const {
    float best = 0;
    for (size_t i = 0; i < levels_.size(); ++i) {
      const float stride = levels_[i].stride;
      const auto nearest = [&](float center, int64_t side) {
        const float last = std::ceil(float(side) / stride) - 1;
        return stride * std::clamp(std::round(center / stride), 0.0f, last);
      };
      const float x = nearest(box.center_x(), content.width), y = nearest(box.center_y(), content.height);
      for (const Box& form : cells_[i])
        best = std::max(best, overlap_of(box, {x + form.x1, y + form.y1, x + form.x2, y + form.y2}));
    }
    return best;
  }

 private:
  std::vector<AnchorLevel> levels_;
  std::vector<std::vector<Box>> cells_;  // by level
};

}  // namespace

double PlacedObject::side() const { return std::sqrt(double(box.area())); }

int64_t Placement::all_invisible() const { return std::accumulate(invisible.begin(), invisible.end(), int64_t{0}); }

Placement placed(const Annotations& split, const Config::Data& data, const AnchorRule& rule) {
  const Canvases canvases(data);
  const AnchorSearch anchors(rule);
  Placement all{.images = std::vector<int64_t>(size_t(canvases.count())),
                .invisible = std::vector<int64_t>(split.classes.size())};
  for (const AnnotatedImage& image : split.images) {
    if (image.width <= 0 || image.height <= 0) continue;
    const ImageSize size{image.height, image.width};
    const int canvas = canvases.of(size);
    const Truth::Image place = octet::place(canvases, canvas, size, data.short_side);
    const ImageSize content{place.content_height, place.content_width};
    const ImageShape shape = canvases.shape(canvas);
    ++all.images[size_t(canvas)];
    all.content += double(content.height * content.width);
    all.canvas += double(shape.height * shape.width);
    all.reduced += canvases.reduces(size);
    for (const Object& object : image.objects) {
      if (object.crowd || fault_of(object.box, image.width, image.height) != BoxFault::none) continue;
      const Box box = on_canvas(object.box, place);
      if (is_visible(box))
        all.objects.push_back({box, object.label, anchors.best(box, content)});
      else
        ++all.invisible[size_t(object.label)];
    }
  }
  return all;
}

double found_share(const Placement& of, int32_t label, float positive) {
  double found = 0, all = 0;
  for (const PlacedObject& object : of.objects) {
    if (label >= 0 && object.label != label) continue;
    ++all;
    found += object.best_overlap >= positive;
  }
  return all > 0 ? found / all : -1;
}

double found_share_of_classes(const Placement& of, float positive) {
  int32_t last = -1;
  for (const PlacedObject& object : of.objects) last = std::max(last, object.label);
  double sum = 0, classes = 0;
  for (int32_t label = 0; label <= last; ++label)
    if (const double share = found_share(of, label, positive); share >= 0) sum += share, ++classes;
  return classes > 0 ? sum / classes : 0;
}

double quantile(const std::vector<std::pair<double, double>>& sides, double share) {
  double total = 0, below = 0;
  for (const auto& [side, weight] : sides) total += weight;
  for (const auto& [side, weight] : sides) {
    below += weight;
    if (below >= share * total) return side;
  }
  return sides.back().first;
}

std::vector<int64_t> sizes_that_fit(const Placement& of, const AnchorRule& anchors) {
  if (of.objects.empty()) return {};
  std::vector<double> of_class(of.invisible.size());
  for (const PlacedObject& object : of.objects) ++of_class[size_t(object.label)];
  std::vector<std::pair<double, double>> sides;
  for (const PlacedObject& object : of.objects) sides.emplace_back(object.side(), 1 / of_class[size_t(object.label)]);
  std::ranges::sort(sides);
  const std::vector<float>& sizes = anchors.levels.front().sizes;
  const double middle = double(sizes[sizes.size() / 2]) / double(sizes.front());  // of the sizes of a level
  const auto levels = double(anchors.levels.size());
  std::vector<int64_t> fitting;
  for (double level = 0.5; level < levels; ++level)
    fitting.push_back(std::max<int64_t>(1, std::llround(quantile(sides, level / levels) / middle)));
  return fitting;
}

}  // namespace octet
