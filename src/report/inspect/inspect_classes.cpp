#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <opencv2/imgproc.hpp>

#include "kernels/base/error.h"
#include "src/data/loader.h"
#include "src/report/charts/svg.h"
#include "src/report/inspect/sections.h"
#include "src/report/page.h"

namespace octet {
namespace {

constexpr size_t classes_in_matrix = 100;  // at most
constexpr size_t shown_confusions = 12, shown_mistakes = 24;
constexpr int longest_thumbnail_side = 128;  // in pixels

struct Tally {
  std::vector<std::string> names;
  std::vector<int64_t> images, right;                   // by label
  std::map<std::pair<size_t, size_t>, int64_t> counts;  // by label and answer, of those that occur

  double accuracy(size_t label) const { return static_cast<double>(right[label]) / static_cast<double>(images[label]); }
};

Tally tally_of(const ClassAnswers& all) {
  Tally tally;
  tally.names = all.classes;
  for (const Answer& answer : all.answers)
    while (static_cast<int64_t>(tally.names.size()) <= std::max(answer.label, answer.predicted))
      tally.names.push_back(std::to_string(tally.names.size()));
  tally.images.resize(tally.names.size());
  tally.right.resize(tally.names.size());
  for (const Answer& answer : all.answers) {
    const auto label = static_cast<size_t>(answer.label), predicted = static_cast<size_t>(answer.predicted);
    ++tally.images[label];
    if (predicted == label) ++tally.right[label];
    ++tally.counts[{label, predicted}];
  }
  return tally;
}

std::string answer_table(const Tally& tally) {
  std::vector<size_t> labels;
  for (size_t label = 0; label < tally.names.size(); ++label)
    if (tally.images[label] > 0) labels.push_back(label);
  std::ranges::stable_sort(labels, {}, [&](size_t label) { return tally.accuracy(label); });
  std::string html = "<div class=\"card list\"><table><tr><th>class</th><th>images</th><th>right</th><th></th></tr>\n";
  for (const size_t label : labels)
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{:.1f} %</td>{}</tr>\n", escaped(tally.names[label]),
                        tally.images[label], 100 * tally.accuracy(label), bar_cell(tally.accuracy(label)));
  return html + "</table></div>\n";
}

// The pairs of classes that are taken for each other most often.
std::string confusion_table(const Tally& tally) {
  struct Pair {
    size_t label, answer;
    int64_t count;
  };
  std::vector<Pair> pairs;
  for (const auto& [classes, count] : tally.counts)
    if (classes.first != classes.second) pairs.push_back({classes.first, classes.second, count});
  if (pairs.empty()) return {};
  std::ranges::stable_sort(pairs, std::greater(), &Pair::count);
  pairs.resize(std::min(pairs.size(), shown_confusions));
  std::string html =
      "<div class=\"card list\"><table><tr><th>class</th><th>taken for</th><th>images</th><th>share</th></tr>\n";
  for (const Pair& pair : pairs)
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.1f} %</td></tr>\n",
                        escaped(tally.names[pair.label]), escaped(tally.names[pair.answer]), pair.count,
                        100.0 * static_cast<double>(pair.count) / static_cast<double>(tally.images[pair.label]));
  return html + "</table></div>\n";
}

struct SmallPicture {
  std::string address;  // a PNG file as a "data:" address; empty: the image cannot be read now
  bool small = false;   // fewer pixels than the page shows
};

// The images of these answers as the network sees them. UsageError: the data cannot be read, or is not that of the
// answers.
std::vector<SmallPicture> small_pictures(const Config& config, const ClassAnswers& all,
                                         std::span<const Answer> answers) {
  Config plain = config;
  plain.data.bad_images = "skip";  // one that cannot be read now is left out
  const Datasets sets = open_datasets(plain, false, {all.classes, {}});
  const Dataset& data = *sets.test;
  const bool same = data.size() == all.images &&
                    std::ranges::all_of(answers, [&](const Answer& a) { return data.label(a.image) == a.label; });
  REQUIRE_USAGE(same, "give the data of the training", "the images or their labels are others than in the training");
  const auto height = static_cast<int>(data.shape().height), width = static_cast<int>(data.shape().width);
  cv::Mat pixels(height, width, CV_8UC4), bytes;
  std::vector<SmallPicture> pictures;
  for (const Answer& answer : answers) {
    SmallPicture picture{.address = {}, .small = std::max(height, width) < longest_thumbnail_side};
    if (data.read(answer.image, false, 0, 0, pixels.data)) {
      cv::cvtColor(pixels, bytes, cv::COLOR_RGBA2RGB);
      const double scale = 1.0 * longest_thumbnail_side / std::max(height, width);
      if (scale < 1) cv::resize(bytes, bytes, {}, scale, scale, cv::INTER_AREA);
      picture.address = png_address(bytes);
    }
    pictures.push_back(std::move(picture));
  }
  return pictures;
}

std::string mistakes(const ClassAnswers& all, const Tally& tally, const Config* config) {
  std::vector<Answer> wrong;
  for (const Answer& answer : all.answers)
    if (answer.label != answer.predicted) wrong.push_back(answer);
  if (wrong.empty()) return {};
  std::ranges::stable_sort(wrong, std::greater(), &Answer::probability);
  wrong.resize(std::min(wrong.size(), shown_mistakes));
  std::string html =
      "<h2>The most confident mistakes</h2><p>Images of the test set that the network took for another class, with the "
      "probability that it gave this class. Some labels may be wrong, too.</p>\n";
  if (config == nullptr) return html + "<p>The run's configuration cannot be read, so there are no pictures.</p>\n";
  try {
    const std::vector<SmallPicture> pictures = small_pictures(*config, all, wrong);
    std::string figures;
    const auto name_of = [&](int64_t image) {
      return all.files.empty() ? fmt::format("image {}", image) : escaped(all.files[static_cast<size_t>(image)]);
    };
    for (size_t i = 0; i < pictures.size(); ++i) {
      if (pictures[i].address.empty()) continue;
      const std::string &predicted = tally.names[static_cast<size_t>(wrong[i].predicted)],
                        &label = tally.names[static_cast<size_t>(wrong[i].label)];
      figures += fmt::format(
          "<figure class=\"card\"><img{} loading=\"lazy\" src=\"{}\" alt=\"{}\"><figcaption><b>{}</b> {:.1f} "
          "%<br>is <i>{}</i><br>{}</figcaption></figure>\n",
          pictures[i].small ? " class=\"small\"" : "", pictures[i].address, name_of(wrong[i].image), escaped(predicted),
          100 * wrong[i].probability, escaped(label), name_of(wrong[i].image));
    }
    return html + card_grid(figures, "mistakes");
  } catch (const Error& error) {
    return html + "<p>The test set of this run cannot be read, so there are no pictures: " + escaped(error.what()) +
           "</p>\n";
  }
}

}  // namespace

std::string class_sections(const ClassAnswers& all, const Config* config) {
  if (all.answers.empty()) return {};
  const Tally tally = tally_of(all);
  std::string charts = "<div class=\"stack\">" + answer_table(tally) + confusion_table(tally) + "</div>\n";
  if (const size_t classes = tally.names.size(); classes <= classes_in_matrix) {
    std::vector<int64_t> matrix(classes * classes);
    for (const auto& [pair, count] : tally.counts) matrix[pair.first * classes + pair.second] = count;
    const bool many = classes > 25;  // with names only in a wide chart, which a telephone scrolls
    charts += fmt::format("<div class=\"card{}\">{}</div>\n", many ? " scrolled" : "",
                          matrix_chart({.title = "Confusion matrix", .width = many ? 640 : 460}, tally.names, matrix));
  }
  return fmt::format(
             "<h2>Classes</h2><p>What the network answered to the {} images of the test set after step {}. The worst "
             "class comes first.</p>\n",
             all.answers.size(), all.step) +
         card_grid(charts) + mistakes(all, tally, config);
}

}  // namespace octet
