#include "src/report/prediction_page.h"

#include <fmt/format.h>

#include "src/report/page.h"
#include "src/report/picture_files.h"
#include "src/report/svg.h"

namespace octet {
namespace {

constexpr int side_of_picture = 320;  // pixels
constexpr const char* picture_style = "display:block;width:100%;height:240px;object-fit:contain";

std::string answer_row(const std::string& name, double share) {
  return fmt::format("<tr><td>{}</td><td>{:.1f} %</td>{}</tr>", escaped(name), 100 * share, bar_cell(share));
}

std::string answered_picture(const PredictionReport& report, const Prediction& prediction) {
  const AnnotatedImage& image = report.image(prediction);
  std::string rows;
  for (const RankedClass& of : report.answers(prediction))
    rows += answer_row(report.class_name(of.label), of.probability);
  for (const Detection& found : prediction.objects)
    rows += answer_row(report.class_name(size_t(found.label)), found.score);
  if (rows.empty()) rows = "<tr><td>nothing found</td></tr>";
  const std::string picture = picture_of_file(report.network, image.path, prediction, side_of_picture);
  return fmt::format(
      "<figure class=\"card\"><figcaption>{}{}</figcaption><table>{}</table></figure>\n",
      picture.empty() ? "" : fmt::format("<img src=\"{}\" alt=\"\" style=\"{}\">", picture, picture_style),
      escaped(image.path), rows);
}

}  // namespace

std::string prediction_page(const PredictionReport& report) {
  std::string pictures;
  for (const Prediction& prediction : report.predictions) pictures += answered_picture(report, prediction);
  return html_page("Predictions",
                   fmt::format("{} images, {}", report.predictions.size(), report.network.config().model.name),
                   card_grid(pictures, "three"));
}

}  // namespace octet
