#include "src/report/evaluation_page.h"

#include <fmt/format.h>

#include "src/report/class_parts.h"
#include "src/report/detection_parts.h"
#include "src/report/page.h"
#include "src/tasks/metric_display.h"

namespace octet {
namespace {

std::string figure_tiles(const Scalars& figures) {
  std::string tiles;
  for (const Scalar& figure : figures) {
    const MetricDisplay display = display_of(figure.name);
    tiles += tile(display.text(figure.value), display.label);
  }
  return tiles;
}

std::string in_tiles(const std::string& tiles) { return "<div class=\"tiles\">" + tiles + "</div>\n"; }

}  // namespace

std::string evaluation_page(const DetectionFigures& judged, const std::string& sentence) {
  return html_page("Evaluation", sentence, in_tiles(figure_tiles(judged.figures)) + detection_cards(judged));
}

std::string evaluation_page(const Judge& judge, const Dataset& data, const std::string& sentence) {
  if (const DetectionFigures* const judged = judge.detection_figures()) return evaluation_page(*judged, sentence);
  const std::string tiles = figure_tiles(judge.figures());
  const ClassAnswers* const all = judge.class_answers();
  if (all == nullptr) return html_page("Evaluation", sentence, in_tiles(tiles));
  const ClassReport report = class_report(*all);
  const std::string means = tile(fmt::format("{:.2f} %", 100 * report.macro.f1), "F1, macro average") +
                            tile(fmt::format("{:.2f} %", 100 * report.weighted.f1), "F1, weighted average");
  std::string html = in_tiles(tiles + means) + class_cards(report);
  if (const std::vector<Answer> wrong = confident_mistakes(*all); !wrong.empty())
    html += mistakes_heading + mistake_cards(*all, wrong, report, data);
  return html_page("Evaluation", sentence, html);
}

}  // namespace octet
