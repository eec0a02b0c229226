#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "src/data/annotations/annotations.h"
#include "src/data/sources/detection_set.h"
#include "src/models/detectors.h"
#include "src/report/check/check_parts.h"

namespace octet {
namespace {

// An object on the canvas of its image.
struct PlacedObject {
  Box box;
  int32_t label = 0;
  float best_overlap = 0;  // with an anchor
  double side() const { return std::sqrt(double(box.area())); }
};

// What one split looks like to the network.
struct Placement {
  std::vector<int64_t> images;     // by canvas
  double content = 0, canvas = 0;  // pixels of all images, and of their canvases
  int64_t reduced = 0;             // images that are smaller than the recipe asks for
  std::vector<PlacedObject> objects = {};
  std::vector<int64_t> invisible = {};  // objects smaller than a pixel of the canvas, by class
  int64_t all_invisible() const { return std::accumulate(invisible.begin(), invisible.end(), int64_t{0}); }
};

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

Placement placed(const Annotations& split, const Canvases& canvases, int64_t short_side, const AnchorSearch& anchors) {
  Placement all{.images = std::vector<int64_t>(size_t(canvases.count())),
                .invisible = std::vector<int64_t>(split.classes.size())};
  for (const AnnotatedImage& image : split.images) {
    if (image.width <= 0 || image.height <= 0) continue;
    const ImageSize size{image.height, image.width};
    const int canvas = canvases.of(size);
    const Truth::Image place = octet::place(canvases, canvas, size, short_side);
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

std::string row(const std::string& name, const std::array<std::string, 2>& values) {
  return fmt::format("{:<32}{:>10}{:>10}\n", name, values[0], values[1]);
}
std::string percent(double part, double whole) { return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-"; }

std::string canvas_rows(const Canvases& canvases, const std::array<Placement, 2>& of) {
  std::string text = "\ncanvases, height x width\n";
  for (int canvas = 0; canvas < canvases.count(); ++canvas) {
    const auto images = [&](size_t s) { return std::to_string(of[s].images[size_t(canvas)]); };
    const ImageShape shape = canvases.shape(canvas);
    text += row(fmt::format("  {}x{}", shape.height, shape.width), {images(0), images(1)});
  }
  const auto fill = [&](size_t s) { return percent(of[s].content, of[s].canvas); };
  return text + row("filled by images", {fill(0), fill(1)}) +
         row("images reduced to fit", {std::to_string(of[0].reduced), std::to_string(of[1].reduced)});
}

// The share of the objects of one class, or of all (label -1), that an anchor overlaps enough; -1: there are none.
double found_share(const Placement& of, int32_t label, float positive) {
  double found = 0, all = 0;
  for (const PlacedObject& object : of.objects) {
    if (label >= 0 && object.label != label) continue;
    ++all;
    found += object.best_overlap >= positive;
  }
  return all > 0 ? found / all : -1;
}

std::string anchor_rows(const std::vector<std::string>& classes, const std::array<Placement, 2>& of, float positive) {
  const auto line = [&](const std::string& name, int32_t label) {
    const auto share = [&](size_t s) {
      const double found = found_share(of[s], label, positive);
      return found < 0 ? std::string("-") : percent(found, 1);
    };
    return row(name, {share(0), share(1)});
  };
  std::string text = fmt::format("\nobjects that an anchor overlaps by {:g} or more\n", positive) + line("  all", -1);
  for (size_t label = 0; label < classes.size(); ++label) text += line("  " + classes[label], int32_t(label));
  return text;
}

std::string invisible_rows(const std::vector<std::string>& classes, const std::array<Placement, 2>& of) {
  std::string text = check_row("\nobjects without a pixel on the canvas", of[0].all_invisible(), of[1].all_invisible());
  for (size_t label = 0; label < classes.size(); ++label) {
    const auto number = [&](size_t s) { return label < of[s].invisible.size() ? of[s].invisible[label] : 0; };
    if (number(0) + number(1) > 0) text += check_row("  " + classes[label], number(0), number(1));
  }
  return text;
}

// The side below which the share of all weight lies. sides: with their weights, sorted.
double quantile(const std::vector<std::pair<double, double>>& sides, double share) {
  double total = 0, below = 0;
  for (const auto& [side, weight] : sides) total += weight;
  for (const auto& [side, weight] : sides) {
    below += weight;
    if (below >= share * total) return side;
  }
  return sides.back().first;
}

// Every class counts alike, so that a rare class of another size has its anchors too.
std::string size_rows(const std::vector<std::string>& classes, const Placement& train, const AnchorRule& anchors) {
  std::vector<double> objects(classes.size());
  for (const PlacedObject& object : train.objects) ++objects[size_t(object.label)];
  std::vector<std::pair<double, double>> all;
  std::vector<std::vector<std::pair<double, double>>> by_class(classes.size());
  for (const PlacedObject& object : train.objects) {
    all.emplace_back(object.side(), 1 / objects[size_t(object.label)]);
    by_class[size_t(object.label)].emplace_back(object.side(), 1);
  }
  if (all.empty()) return "";
  std::string text =
      fmt::format("\nsquare roots of the areas of training's objects, in pixels of the canvas\n{:<32}", "");
  constexpr double shares[] = {0.05, 0.25, 0.5, 0.75, 0.95};
  for (const double share : shares) text += fmt::format("{:>6.0f} %", 100 * share);
  for (size_t label = 0; label < classes.size(); ++label) {
    if (by_class[label].empty()) continue;
    std::ranges::sort(by_class[label]);
    text += fmt::format("\n{:<32}", "  " + classes[label]);
    for (const double share : shares) text += fmt::format("{:>8.0f}", quantile(by_class[label], share));
  }
  std::ranges::sort(all);
  const std::vector<float>& sizes = anchors.levels.front().sizes;
  const double middle = double(sizes[sizes.size() / 2]) / double(sizes.front());  // of the sizes of a level
  const size_t levels = anchors.levels.size();
  text += "\nthat fit them: model.anchor_sizes: [";
  for (size_t level = 0; level < levels; ++level)
    text += fmt::format("{}{:.0f}", level == 0 ? "" : ", ",
                        std::max(1.0, quantile(all, (double(level) + 0.5) / double(levels)) / middle));
  return text + "]\n";
}

void judge_sizes(const Annotations& split, const Placement& of, const char* name, DataCheck& check) {
  const int64_t lost = of.all_invisible();
  if (lost > 0 && of.objects.empty())
    check.errors.push_back(
        fmt::format("no object of {} has a pixel in each direction on its canvas: {}", name, advice_on_sizes(split)));
  else if (lost > 0)
    check.warnings.push_back(
        fmt::format("{} of {} objects of {} have no pixel in each direction on their canvas: they "
                    "do not train, and can hardly be found",
                    lost, lost + int64_t(of.objects.size()), name));
}

void judge_anchors(const std::vector<std::string>& classes, const Placement& train, float positive, DataCheck& check) {
  constexpr double least = 0.5;
  std::vector<std::string> low;
  for (size_t label = 0; label < classes.size(); ++label) {
    const double share = found_share(train, int32_t(label), positive);
    if (share >= 0 && share < least) low.push_back(classes[label]);
  }
  if (!low.empty())
    check.warnings.push_back(fmt::format(
        "most objects of {} overlap no anchor by {:g}: set model.anchor_sizes to those that this check proposes",
        joined(low, ", "), positive));
}

}  // namespace

void check_detector(const Config& config, const std::array<Annotations, 2>& splits, DataCheck& check) {
  const Canvases canvases(config.data);
  const AnchorRule anchors = anchors_of(config);
  const AnchorSearch search(anchors);
  std::array<Placement, 2> placements;
  for (size_t s = 0; s < 2; ++s) placements[s] = placed(splits[s], canvases, config.data.short_side, search);
  const std::vector<std::string>& classes = splits[0].classes;
  check.page += canvas_rows(canvases, placements) + invisible_rows(classes, placements) +
                anchor_rows(classes, placements, anchors.positive) + size_rows(classes, placements[0], anchors);
  for (size_t s = 0; s < 2; ++s) judge_sizes(splits[s], placements[s], split_names[s], check);
  judge_anchors(classes, placements[0], anchors.positive, check);
}

}  // namespace octet
