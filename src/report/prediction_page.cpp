#include "src/report/prediction_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/data/images/decode.h"
#include "src/data/images/open_image.h"
#include "src/report/charts/svg.h"
#include "src/report/page.h"
#include "src/report/pictures/draw_boxes.h"

namespace octet {
namespace {

constexpr int side_of_picture = 320;  // pixels
constexpr const char* picture_style = "display:block;width:100%;height:240px;object-fit:contain";

std::string answer_row(const std::string& name, double share) {
  return fmt::format("<tr><td>{}</td><td>{:.1f} %</td>{}</tr>", escaped(name), 100 * share, bar_cell(share));
}

// With the boxes of a detector. Empty if the file cannot be read, of which the prediction has warned.
std::string picture_of(const Predictor& network, const std::string& file, const Prediction& prediction) {
  const bool objects = network.task().objects;
  try {
    const Config::Data& data = network.config().data;
    const bool upright = !objects || data.turn_upright == "true";
    const OpenedImage opened = open_image(file, data.max_pixels, upright ? View::upright : View::stored);
    const double scale = double(side_of_picture) / double(std::max(opened.size.width, opened.size.height));
    const cv::Mat image = opened.decode(objects ? 1 : std::min(1.0, scale));
    return page_picture(image, boxes_of(prediction.answers.detections, network.classes().names, 0), side_of_picture);
  } catch (const BadImage&) {
    return {};
  }
}

std::string answered_picture(const Predictor& network, const Presentation& presentation, const std::string& file,
                             const Prediction& prediction) {
  std::string rows;
  for (const auto& [name, share] : presentation.shares(prediction.answers)) rows += answer_row(name, share);
  if (rows.empty()) rows = "<tr><td>nothing found</td></tr>";
  const std::string picture = picture_of(network, file, prediction);
  return fmt::format(
      "<figure class=\"card\"><figcaption>{}{}</figcaption><table>{}</table></figure>\n",
      picture.empty() ? "" : fmt::format("<img src=\"{}\" alt=\"\" style=\"{}\">", picture, picture_style),
      escaped(file), rows);
}

}  // namespace

std::string prediction_page(const Predictor& network, const Presentation& presentation,
                            std::span<const std::string> files, std::span<const Prediction> predictions) {
  std::string pictures;
  for (const Prediction& of : predictions)
    pictures += answered_picture(network, presentation, files[size_t(of.sample)], of);
  return html_page("Predictions", fmt::format("{} images, {}", predictions.size(), network.config().model.name),
                   card_grid(pictures, "three"));
}

}  // namespace octet
