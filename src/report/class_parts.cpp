#include "src/report/class_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "src/data/images/resize.h"
#include "src/report/charts/svg.h"
#include "src/report/page.h"

namespace octet {
namespace {

constexpr size_t classes_in_matrix = 100;  // at most
constexpr size_t shown_confusions = 12, shown_mistakes = 24;
constexpr int longest_thumbnail_side = 128;  // in pixels

std::string figures_row(const std::string& name, const ClassFigures& of, int64_t images) {
  return fmt::format("<tr><td>{}</td><td>{}</td><td>{:.1f} %</td><td>{:.1f} %</td><td>{:.1f} %</td></tr>\n",
                     escaped(name), images, 100 * of.precision, 100 * of.recall, 100 * of.f1);
}

std::string figures_table(const ClassReport& report) {
  std::vector<size_t> labels(report.classes.size());
  std::iota(labels.begin(), labels.end(), size_t{0});
  std::ranges::stable_sort(labels, {}, [&](size_t label) { return report.classes[label].f1; });
  std::string html =
      "<div class=\"card "
      "list\"><table><tr><th>class</th><th>images</th><th>precision</th><th>recall</th><th>F1</th></tr>\n";
  for (const size_t label : labels)
    html += figures_row(report.classes[label].name, report.classes[label], report.classes[label].support);
  html += figures_row("macro average", report.macro, report.images);
  html += figures_row("weighted average", report.weighted, report.images);
  return html + "</table></div>\n";
}

// The pairs of classes that are taken for each other most often.
std::string confusion_table(const ClassReport& report) {
  struct Pair {
    size_t label, answer;
    int64_t count;
  };
  std::vector<Pair> pairs;
  for (const auto& [classes, count] : report.counts)
    if (classes.first != classes.second) pairs.push_back({classes.first, classes.second, count});
  if (pairs.empty()) return {};
  std::ranges::stable_sort(pairs, std::greater(), &Pair::count);
  pairs.resize(std::min(pairs.size(), shown_confusions));
  std::string html =
      "<div class=\"card list\"><table><tr><th>class</th><th>taken for</th><th>images</th><th>share</th></tr>\n";
  for (const Pair& pair : pairs)
    html +=
        fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.1f} %</td></tr>\n",
                    escaped(report.classes[pair.label].name), escaped(report.classes[pair.answer].name), pair.count,
                    100.0 * static_cast<double>(pair.count) / static_cast<double>(report.classes[pair.label].support));
  return html + "</table></div>\n";
}

struct SmallPicture {
  std::string address;  // a PNG file as a "data:" address; empty: the image cannot be read now
  bool small = false;   // fewer pixels than the page shows
};

// The images of these answers as the network sees them.
std::vector<SmallPicture> small_pictures(const Dataset& data, std::span<const Answer> answers) {
  const auto height = static_cast<int>(data.shape().height), width = static_cast<int>(data.shape().width);
  const Raster pixels(height, width, pixel_channels);
  std::vector<SmallPicture> pictures;
  for (const Answer& answer : answers) {
    SmallPicture picture{.address = {}, .small = std::max(height, width) < longest_thumbnail_side};
    if (data.read(answer.image, false, 0, 0, pixels.data)) {
      picture.address = png_address(shrunk(rgb_of(pixels), 1.0 * longest_thumbnail_side / std::max(height, width)));
    }
    pictures.push_back(std::move(picture));
  }
  return pictures;
}

}  // namespace

std::string class_cards(const ClassReport& report) {
  std::string cards = "<div class=\"stack\">" + figures_table(report) + confusion_table(report) + "</div>\n";
  const size_t classes = report.classes.size();
  if (classes > classes_in_matrix) return card_grid(cards);
  std::vector<std::string> names;
  for (const ClassReport::Class& of : report.classes) names.push_back(of.name);
  std::vector<int64_t> matrix(classes * classes);
  for (const auto& [pair, count] : report.counts) matrix[pair.first * classes + pair.second] = count;
  const bool many = classes > 25;  // with names only in a wide chart, which a telephone scrolls
  return card_grid(cards +
                   fmt::format("<div class=\"card{}\">{}</div>\n", many ? " scrolled" : "",
                               matrix_chart({.title = "Confusion matrix", .width = many ? 640 : 460}, names, matrix)));
}

std::vector<Answer> confident_mistakes(const ClassAnswers& all) {
  std::vector<Answer> wrong;
  for (const Answer& answer : all.answers)
    if (answer.label != answer.predicted) wrong.push_back(answer);
  std::ranges::stable_sort(wrong, std::greater(), &Answer::probability);
  wrong.resize(std::min(wrong.size(), shown_mistakes));
  return wrong;
}

std::string mistake_cards(const ClassAnswers& all, std::span<const Answer> wrong, const ClassReport& report,
                          const Dataset& data) {
  const std::vector<SmallPicture> pictures = small_pictures(data, wrong);
  const auto name_of = [&](int64_t image) {
    return all.files.empty() ? fmt::format("image {}", image) : escaped(all.files[static_cast<size_t>(image)]);
  };
  std::string figures;
  for (size_t i = 0; i < pictures.size(); ++i) {
    if (pictures[i].address.empty()) continue;
    const std::string &predicted = report.classes[static_cast<size_t>(wrong[i].predicted)].name,
                      &label = report.classes[static_cast<size_t>(wrong[i].label)].name;
    figures += fmt::format(
        "<figure class=\"card\"><img{} loading=\"lazy\" src=\"{}\" alt=\"{}\"><figcaption><b>{}</b> {:.1f} "
        "%<br>is <i>{}</i><br>{}</figcaption></figure>\n",
        pictures[i].small ? " class=\"small\"" : "", pictures[i].address, name_of(wrong[i].image), escaped(predicted),
        100 * wrong[i].probability, escaped(label), name_of(wrong[i].image));
  }
  return card_grid(figures, "mistakes");
}

}  // namespace octet
