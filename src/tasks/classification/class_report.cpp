#include "src/tasks/classification/class_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "kernels/base/text.h"
#include "src/tasks/presentation.h"
#include "src/tasks/table_text.h"

namespace octet {
namespace {

using ReportJson = nlohmann::ordered_json;

constexpr size_t longest_name = 40;  // characters; the columns beside it take 36 of 80

double quotient(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

void count(const ClassAnswers& all, ClassReport& report) {
  const auto add_class = [&](std::string name) { report.classes.emplace_back().name = std::move(name); };
  for (const std::string& name : all.classes) add_class(name);
  for (const Answer& answer : all.answers) {
    const auto label = static_cast<size_t>(answer.label), predicted = static_cast<size_t>(answer.predicted);
    while (report.classes.size() <= std::max(label, predicted)) add_class(std::to_string(report.classes.size()));
    ++report.classes[label].support;
    ++report.classes[predicted].predicted;
    if (label == predicted) ++report.classes[label].right;
    ++report.counts[{label, predicted}];
  }
}

std::string row(const std::string& name, size_t width, const ClassFigures& of, int64_t images) {
  return fmt::format("{:{}}  {:9.4f}  {:6.4f}  {:6.4f}  {:7}\n", name, width, of.precision, of.recall, of.f1, images);
}

// The labels of the rows, and where a gap follows after so many of them; 0: nothing is left out.
struct ShownRows {
  std::vector<size_t> labels;
  size_t before_gap = 0;
};

ShownRows rows_of(const std::vector<ClassReport::Class>& classes) {
  ShownRows rows;
  rows.labels.resize(classes.size());
  std::iota(rows.labels.begin(), rows.labels.end(), size_t{0});
  if (classes.size() <= most_table_rows) return rows;
  std::erase_if(rows.labels, [&](size_t label) { return classes[label].support == 0; });
  std::ranges::stable_sort(rows.labels, {}, [&](size_t label) { return classes[label].f1; });
  if (rows.labels.size() <= worst_table_rows + best_table_rows) return rows;
  rows.labels.erase(rows.labels.begin() + worst_table_rows, rows.labels.end() - best_table_rows);
  rows.before_gap = worst_table_rows;
  return rows;
}

ReportJson figures_json(const ClassFigures& of) {
  return {{"precision", of.precision}, {"recall", of.recall}, {"F1", of.f1}};
}

}  // namespace

ClassReport class_report(const ClassAnswers& all) {
  ClassReport report;
  count(all, report);
  report.images = static_cast<int64_t>(all.answers.size());
  int64_t right = 0;
  for (ClassReport::Class& of : report.classes) {
    of.precision = quotient(of.right, of.predicted);
    of.recall = quotient(of.right, of.support);
    of.f1 = quotient(2 * of.right, of.predicted + of.support);
    right += of.right;
  }
  report.accuracy = quotient(right, report.images);
  const auto mean = [&](double ClassFigures::*figure, bool by_images) {
    double sum = 0, weights = 0;
    for (const ClassReport::Class& of : report.classes) {
      const double weight = by_images ? static_cast<double>(of.support) : 1;
      sum += weight * (of.*figure);
      weights += weight;
    }
    return weights == 0 ? 0 : sum / weights;
  };
  for (double ClassFigures::*figure : {&ClassFigures::precision, &ClassFigures::recall, &ClassFigures::f1}) {
    report.macro.*figure = mean(figure, false);
    report.weighted.*figure = mean(figure, true);
  }
  return report;
}

std::string class_table(const ClassReport& report) {
  constexpr const char* last_name = "weighted average";
  const std::vector<ClassReport::Class>& classes = report.classes;
  const ShownRows rows = rows_of(classes);
  std::vector<std::string> names = {last_name};
  for (const size_t label : rows.labels) names.push_back(in_table(classes[label].name, longest_name));
  const size_t width = widest(names);
  std::string text = fmt::format("{:{}}  precision  recall      F1  support\n", "class", width);
  for (size_t i = 0; i < rows.labels.size(); ++i) {
    if (i > 0 && i == rows.before_gap) text += "...\n";
    text += row(names[i + 1], width, classes[rows.labels[i]], classes[rows.labels[i]].support);
  }
  text += fmt::format("\n{:{}}  {:>25.4f}  {:7}\n", "accuracy", width, report.accuracy, report.images);
  text += row("macro average", width, report.macro, report.images);
  text += row(last_name, width, report.weighted, report.images);
  const auto without = std::ranges::count_if(classes, [](const ClassReport::Class& of) { return of.support == 0; });
  if (without > 0)
    text += fmt::format("{} of {} classes have no images; each counts as 0 in the macro average\n", without,
                        classes.size());
  if (rows.labels.size() < classes.size())
    text += fmt::format("{} of {} classes are shown, the least F1 first; --csv FILE writes all of them\n",
                        rows.labels.size(), classes.size());
  return text;
}

std::string class_json(const ClassReport& report) {
  ReportJson classes = ReportJson::array(), confusion = ReportJson::object();
  for (const ClassReport::Class& of : report.classes) {
    ReportJson object = {{"class", of.name}};
    object.update(figures_json(of));
    object.update({{"support", of.support}, {"predicted", of.predicted}, {"right", of.right}});
    classes.push_back(std::move(object));
  }
  for (const auto& [pair, images] : report.counts)
    confusion[report.classes[pair.first].name][report.classes[pair.second].name] = images;
  const ReportJson object = {{"accuracy", report.accuracy},
                             {"macro_average", figures_json(report.macro)},
                             {"weighted_average", figures_json(report.weighted)},
                             {"classes", classes},
                             {"confusion", confusion}};
  return object.dump(-1, ' ', false, ReportJson::error_handler_t::replace);
}

std::string class_csv(const ClassReport& report) {
  std::string text = "class,precision,recall,F1,support,predicted,right\r\n";
  for (const ClassReport::Class& of : report.classes)
    text += fmt::format("{},{:.6f},{:.6f},{:.6f},{},{},{}\r\n", csv_field(of.name), of.precision, of.recall, of.f1,
                        of.support, of.predicted, of.right);
  return text;
}

}  // namespace octet
