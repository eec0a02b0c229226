#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>

#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "src/data/annotations/detections.h"
#include "src/data/images/decode.h"
#include "src/data/loader.h"
#include "src/data/sources/detection_set.h"
#include "src/report/charts/svg.h"
#include "src/report/detection_parts.h"
#include "src/report/inspect/sections.h"
#include "src/report/page.h"
#include "src/report/pictures/draw_boxes.h"
#include "src/report/pictures/draw_truth.h"
#include "src/tasks/detection/figures.h"
#include "src/tasks/metric_display.h"

namespace octet {
namespace {

constexpr int64_t pictures = 16;
constexpr double drawn_score = 0.3;
constexpr int longest_side = 640;  // of an image on the page, in pixels

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

std::string row_end(double share) { return bar_cell(share) + "</tr>\n"; }

// Without the data only what the result holds.
std::string class_table(const Scalars& by_class) {
  std::string html = "<div class=\"card list\"><table><tr><th>class</th><th>AP</th><th></th></tr>\n";
  for (const Scalar& of : by_class)
    html += fmt::format("<tr><td>{}</td><td>{} %</td>", escaped(of.name), percent(of.value)) + row_end(of.value);
  return html + "</table></div>\n";
}

// "3 dog, 1 cat", the most frequent first.
std::string counts_of(const std::vector<DrawnBox>& boxes, const std::vector<std::string>& classes) {
  std::map<int32_t, int64_t> counts;
  for (const DrawnBox& box : boxes) ++counts[box.label];
  std::vector<std::pair<int32_t, int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::greater(), &std::pair<int32_t, int64_t>::second);
  std::vector<std::string> words;
  for (const auto& [label, count] : sorted)
    words.push_back(fmt::format("{} {}", count, classes[static_cast<size_t>(label)]));
  return words.empty() ? "nothing" : joined(words, ", ");
}

// Images that have objects, evenly spread over the test set, with the detections and with the truth. detections: in the
// order of the images.
std::string picture_rows(const Config& config, const std::vector<Detection>& detections) {
  Config own = config;
  own.model.classes = 0;  // the labels of the detections are those of the test set alone
  const Datasets sets = open_datasets(own, false);
  const auto* const data = dynamic_cast<const DetectionSet*>(sets.test.get());
  if (data == nullptr) return {};
  const std::vector<AnnotatedImage>& images = data->annotations()->images;
  std::vector<int64_t> shown;
  for (int64_t index = 0; index < data->size(); ++index)
    if (!images[size_t(index)].objects.empty()) shown.push_back(index);
  std::string rows;
  for (const int64_t chosen : spread(int64_t(shown.size()), pictures)) {
    const int64_t index = shown[size_t(chosen)];
    const AnnotatedImage& image = images[size_t(index)];
    const auto found = std::ranges::equal_range(detections, index, {}, &Detection::image);
    try {
      const Raster pixels = data->picture(index);
      const std::vector<DrawnBox> of_network = boxes_of(found, data->class_names(), drawn_score),
                                  of_truth = boxes_of(image, data->class_names());
      rows += fmt::format(
          "<figure class=\"card\"><figcaption>{0}</figcaption><div class=\"pair\"><div><img loading=\"lazy\" "
          "src=\"{1}\" alt=\"{0} with what was found: {3}\">found: {3}</div><div><img loading=\"lazy\" "
          "src=\"{2}\" alt=\"{0} with its annotated objects: {4}\">annotated: {4}</div></div></figure>\n",
          escaped(image.name), page_picture(pixels, of_network, longest_side),
          page_picture(pixels, of_truth, longest_side), escaped(counts_of(of_network, data->class_names())),
          escaped(counts_of(of_truth, data->class_names())));
    } catch (const BadImage&) {  // the training has warned of it
    }
  }
  if (rows.empty()) return {};
  return fmt::format(
             "<h2>Images of the test set</h2><p>First what the network found at the last evaluation with a score of {} "
             "or more, then the annotated objects; crowds and difficult ones are dashed.</p>\n",
             drawn_score) +
         rows;
}

}  // namespace

std::string detection_sections(const std::string& directory, const std::optional<Result>& result,
                               const std::vector<std::string>& overrides) {
  const std::string file = directory + "/detections.json";
  if (!std::filesystem::exists(file)) return {};
  try {
    const Config config = load_config(directory + "/config.yaml", overrides);
    const Annotations truth = test_annotations(config);
    std::vector<Detection> detections = read_detections(file, truth);
    std::ranges::stable_sort(detections, {}, &Detection::image);
    const DetectionFigures judged = judge_detections(config, truth, detections);
    return detection_cards(judged) + picture_rows(config, detections);
  } catch (const Error& error) {
    const std::string missing = "The test set of this run cannot be read, so curves and images are missing: ";
    std::string html = "<h2>Classes</h2><p>" + missing + escaped(error.what()) + "</p>\n";
    if (result && !result->by_class.empty()) html += class_table(result->by_class);
    return html;
  }
}

}  // namespace octet
