#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "src/data/annotations/annotations.h"
#include "src/data/sources/detection_set.h"
#include "src/report/check/check_parts.h"
#include "src/report/check/placement.h"

namespace octet {
namespace {

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

std::string size_rows(const std::vector<std::string>& classes, const Placement& train, const AnchorRule& anchors) {
  if (train.objects.empty()) return "";
  std::vector<std::vector<std::pair<double, double>>> by_class(classes.size());
  for (const PlacedObject& object : train.objects) by_class[size_t(object.label)].emplace_back(object.side(), 1);
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
  return text +
         fmt::format("\nthat fit them: model.anchor_sizes: [{}]\n", fmt::join(sizes_that_fit(train, anchors), ", "));
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

void judge_anchors(const Config& config, const std::vector<std::string>& classes, const Placement& train,
                   const AnchorRule& anchors, DataCheck& check) {
  constexpr double least = 0.5;
  std::vector<std::string> low;
  for (size_t label = 0; label < classes.size(); ++label) {
    const double share = found_share(train, int32_t(label), anchors.positive);
    if (share >= 0 && share < least) low.push_back(classes[label]);
  }
  const bool fit = sizes_that_fit(train, anchors) == config.model.anchor_sizes;
  if (!low.empty())
    check.warnings.push_back(
        fmt::format("most objects of {} overlap no anchor by {:g}: {}", joined(low, ", "), anchors.positive,
                    fit ? "their sizes or forms differ much; a box trains with the anchor that overlaps it most"
                        : "set model.anchor_sizes to those that this check proposes"));
}

}  // namespace

void check_detector(const Config& config, const std::array<Annotations, 2>& splits, DataCheck& check) {
  const Canvases canvases(config.data);
  const AnchorRule anchors = anchors_of(config);
  std::array<Placement, 2> placements;
  for (size_t s = 0; s < 2; ++s) placements[s] = placed(splits[s], config.data, anchors);
  const std::vector<std::string>& classes = splits[0].classes;
  check.page += canvas_rows(canvases, placements) + invisible_rows(classes, placements) +
                anchor_rows(classes, placements, anchors.positive) + size_rows(classes, placements[0], anchors);
  for (size_t s = 0; s < 2; ++s) judge_sizes(splits[s], placements[s], split_names[s], check);
  judge_anchors(config, classes, placements[0], anchors, check);
}

}  // namespace octet
