#include "src/report/prediction_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "src/data/images/decode.h"
#include "src/data/images/open_image.h"
#include "src/report/charts/svg.h"
#include "src/report/page.h"
#include "src/report/pictures/draw_boxes.h"

namespace octet {
namespace {

constexpr int side_of_picture = 320;  // pixels
constexpr const char* picture_style = "display:block;width:100%;height:240px;object-fit:contain";

std::string percent_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string answer_row(const std::string& name, double share, bool first) {
  return fmt::format("<tr{}><td>{}</td><td>{}</td>{}</tr>", first ? " class=\"first\"" : "", escaped(name),
                     percent_text(share), bar_cell(share));
}

// With the boxes of a detector. Empty if the file cannot be read, of which the prediction has warned.
std::string picture_of(const Predictor& network, const std::string& file, const Prediction& prediction) {
  const bool objects = network.task().objects;
  try {
    const Config::Data& data = network.config().data;
    const bool upright = !objects || data.turn_upright == "true";
    const OpenedImage opened = open_image(file, data.max_pixels, upright ? View::upright : View::stored);
    const double scale = double(side_of_picture) / double(std::max(opened.size.width, opened.size.height));
    const Raster image = opened.decode(objects ? 1 : std::min(1.0, scale));
    return page_picture(image, boxes_of(prediction.answers.detections, network.classes().names, 0), side_of_picture);
  } catch (const BadImage&) {
    return {};
  }
}

std::string answered_picture(const Predictor& network, const Presentation& presentation, const std::string& file,
                             const Prediction& prediction) {
  const bool classifies = !network.task().objects;
  std::string rows, answer = "nothing found";
  for (const auto& [name, share] : presentation.shares(prediction.answers)) {
    if (!rows.empty() && percent_text(share) == percent_text(0)) continue;
    if (rows.empty()) answer = name + ", " + percent_text(share);
    rows += answer_row(name, share, classifies && rows.empty());
  }
  if (rows.empty()) rows = "<tr><td>" + answer + "</td></tr>";
  const std::string picture = picture_of(network, file, prediction);
  return fmt::format("<figure class=\"card\"><figcaption>{}{}</figcaption><table>{}</table></figure>\n",
                     picture.empty() ? ""
                                     : fmt::format("<img src=\"{}\" alt=\"{}\" style=\"{}\">", picture,
                                                   escaped(file + ": " + answer), picture_style),
                     escaped(file), rows);
}

// The files that were asked for and could not be read.
std::string skipped_files(std::span<const std::string> files, std::span<const Prediction> predictions) {
  std::vector<bool> read(files.size());
  for (const Prediction& of : predictions) read[size_t(of.sample)] = true;
  std::string items;
  for (size_t file = 0; file < files.size(); ++file)
    if (!read[file]) items += "<li>" + escaped(files[file]) + "</li>\n";
  return items.empty() ? "" : "<h2>Files that could not be read</h2><ul>\n" + items + "</ul>\n";
}

std::string run_of(const std::string& weights) {
  const std::filesystem::path folder = std::filesystem::path(weights).parent_path();
  return std::filesystem::exists(folder / "config.yaml") ? folder.string() : "";
}

}  // namespace

std::string prediction_page(const Predictor& network, const Presentation& presentation,
                            std::span<const std::string> files, std::span<const Prediction> predictions) {
  std::string pictures;
  for (const Prediction& of : predictions)
    pictures += answered_picture(network, presentation, files[size_t(of.sample)], of);
  const std::string named = facts(
      {{"network", network.config().model.name}, {"run", run_of(network.weights())}, {"weights", network.weights()}});
  return html_page("Predictions", predictions.size() == 1 ? "1 image" : fmt::format("{} images", predictions.size()),
                   named + card_grid(pictures, "three") + skipped_files(files, predictions));
}

}  // namespace octet
