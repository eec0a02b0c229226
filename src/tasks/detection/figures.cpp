#include "src/tasks/detection/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/base/text.h"
#include "src/tasks/presentation.h"
#include "src/tasks/table_text.h"

namespace octet {
namespace {

using FiguresJson = nlohmann::ordered_json;
using ClassFigure = DetectionFigures::Class;

constexpr size_t longest_name = 20;  // characters; the columns beside it take 60 of 80

// With objects, in the order of the table. gap: after so many, others are left out; 0: none is.
std::vector<const ClassFigure*> shown_classes(const DetectionFigures& judged, size_t& gap) {
  std::vector<const ClassFigure*> classes;
  for (const ClassFigure& of : judged.classes)
    if (of.objects > 0) classes.push_back(&of);
  gap = 0;
  if (classes.size() <= most_table_rows) return classes;
  std::ranges::stable_sort(classes, {}, [](const ClassFigure* of) { return of->figures.front().value; });
  classes.erase(classes.begin() + worst_table_rows, classes.end() - best_table_rows);
  gap = worst_table_rows;
  return classes;
}

FiguresJson as_json(const AtScore& of) {
  return {{"precision", of.precision}, {"recall", of.recall}, {"F1", of.f1}, {"score", of.score}};
}

std::string at_score_text(const AtScore& of) {
  const std::string score = of.score < 0 ? "-" : fmt::format("{:.3f}", of.score);
  return fmt::format("  {:9.4f}  {:6.4f}  {:6.4f}  {:>5}", of.precision, of.recall, of.f1, score);
}

}  // namespace

DetectionFigures judge_detections(const Config& config, const Annotations& truth, std::span<const Detection> found) {
  return config.data.name == "voc" ? voc_ap(truth, found) : coco_ap(truth, found);
}

void Decisions::add(const Decisions& more) {
  detections.insert(detections.end(), more.detections.begin(), more.detections.end());
  objects += more.objects;
}

AtScore Decisions::best() const {
  if (objects == 0) return {};
  std::vector<Detection> ordered = detections;
  std::ranges::stable_sort(ordered, std::greater<>(), &Detection::score);
  AtScore best{.score = -1, .precision = 0, .recall = 0, .f1 = 0};
  int64_t found = 0;
  for (size_t i = 0; i < ordered.size(); ++i) {
    found += ordered[i].found ? 1 : 0;
    if (i + 1 < ordered.size() && ordered[i + 1].score == ordered[i].score) continue;  // a score parts none of equals
    const auto count = static_cast<double>(i + 1), right = static_cast<double>(found);
    const double f1 = 2 * right / (count + static_cast<double>(objects));
    if (f1 > best.f1) best = {ordered[i].score, right / count, right / static_cast<double>(objects), f1};
  }
  return best;
}

std::string detection_table(const DetectionFigures& judged) {
  std::string text, absent;
  for (const Scalar& figure : judged.figures) text += fmt::format("{:6}{:8.4f}\n", figure.name, figure.value);
  size_t gap = 0;
  const std::vector<const ClassFigure*> classes = shown_classes(judged, gap);
  std::vector<std::string> names = {"class"};
  for (const ClassFigure* of : classes) names.push_back(in_table(of->name, longest_name));
  const size_t width = widest(names);
  text += fmt::format("\n{:{}}  objects", "class", width);
  if (!judged.classes.empty())
    for (const Scalar& figure : judged.classes[0].figures) text += fmt::format("{:>8}", figure.name);
  text += "  precision  recall      F1  score";
  for (size_t i = 0; i < classes.size(); ++i) {
    if (i > 0 && i == gap) text += "\n...";
    text += fmt::format("\n{:{}}  {:7}", names[i + 1], width, classes[i]->objects);
    for (const Scalar& figure : classes[i]->figures) text += fmt::format("{:8.4f}", figure.value);
    text += at_score_text(classes[i]->best);
  }
  if (classes.size() > 1)
    text += fmt::format("\n{:{}}{}", "at one score for all", width + 9 + 8 * judged.classes[0].figures.size(),
                        at_score_text(judged.at_one_score));
  for (const ClassFigure& of : judged.classes)
    if (of.objects == 0) absent += (absent.empty() ? "" : ", ") + printable(of.name);
  if (!absent.empty()) text += "\nno object that counts, and so in no mean: " + absent;
  if (gap > 0)
    text += fmt::format("\n{} classes are shown, the least {} first; --csv FILE writes all of them", classes.size(),
                        judged.classes[0].figures[0].name);
  return text + "\n";
}

std::string detection_json(const DetectionFigures& judged) {
  FiguresJson object;
  for (const Scalar& figure : judged.figures) object[figure.name] = figure.value;
  if (!judged.classes.empty()) {
    object["by_class"] = FiguresJson::object();
    for (const ClassFigure& of : judged.classes)
      if (of.objects > 0) object["by_class"][of.name] = of.figures[0].value;
    object["at_one_score"] = as_json(judged.at_one_score);
    object["classes"] = FiguresJson::array();
    for (const ClassFigure& of : judged.classes) {
      FiguresJson figures = {{"class", of.name}, {"objects", of.objects}};
      for (const Scalar& figure : of.figures) figures[figure.name] = figure.value;
      figures.update(as_json(of.best));
      object["classes"].push_back(std::move(figures));
    }
  }
  return object.dump(-1, ' ', false, FiguresJson::error_handler_t::replace);
}

std::string detection_csv(const DetectionFigures& judged) {
  std::string text = "class,objects";
  if (!judged.classes.empty())
    for (const Scalar& figure : judged.classes[0].figures) text += "," + figure.name;
  text += ",precision,recall,F1,score\r\n";
  const auto field = [](double value) { return value < 0 ? std::string(",") : fmt::format(",{:.6f}", value); };
  for (const ClassFigure& of : judged.classes) {
    text += fmt::format("{},{}", csv_field(of.name), of.objects);
    for (const Scalar& figure : of.figures) text += field(figure.value);
    for (const double value : {of.best.precision, of.best.recall, of.best.f1, of.best.score}) text += field(value);
    text += "\r\n";
  }
  return text;
}

}  // namespace octet
