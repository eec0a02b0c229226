#include "src/report/predictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

std::string json_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string quoted_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string object_of(const PredictionReport& report, const AnnotatedImage& image, const Detection& found) {
  const auto label = size_t(found.label);
  const auto& [x, y, width, height] = found.box;
  return fmt::format(R"({{"image_id": {}, "file_name": {}, "category_id": {}, "class": {}, )"
                     R"("bbox": [{:.2f}, {:.2f}, {:.2f}, {:.2f}], "score": {:.5f}}})",
                     image.id, json_line(image.path), report.category_id(label), json_line(report.class_name(label)), x,
                     y, width, height, found.score);
}

std::string object_of(const PredictionReport& report, const AnnotatedImage& image, const Prediction& prediction) {
  Json best = Json::array();
  for (const RankedClass& answer : report.answers(prediction))
    best.push_back({{"index", answer.label},
                    {"class", report.class_name(answer.label)},
                    {"probability", std::round(1e5 * answer.probability) / 1e5}});
  Json object = {{"image", image.path}, {"top", best}};
  if (report.logits) object["logits"] = prediction.logits;
  return json_line(object);
}

}  // namespace

int64_t PredictionReport::category_id(size_t label) const {
  const std::vector<int64_t>& ids = network.classes().category_ids;
  return ids.empty() ? int64_t(label) + 1 : ids[label];
}

std::vector<RankedClass> PredictionReport::answers(const Prediction& prediction) const {
  std::vector<RankedClass> all(prediction.probabilities.size());
  for (size_t label = 0; label < all.size(); ++label) all[label] = {label, prediction.probabilities[label]};
  std::ranges::stable_sort(all, std::greater<>(), &RankedClass::probability);
  all.resize(std::min(all.size(), size_t(top)));
  return all;
}

std::vector<std::string> PredictionReport::objects() const {
  std::vector<std::string> all;
  for (const Prediction& prediction : predictions) {
    if (!network.detects()) all.push_back(object_of(*this, image(prediction), prediction));
    for (const Detection& found : prediction.objects) all.push_back(object_of(*this, image(prediction), found));
  }
  return all;
}

std::string PredictionReport::text() const {
  std::string text;
  for (const Prediction& prediction : predictions) {
    text += image(prediction).path + ":";
    for (const RankedClass& answer : answers(prediction))
      text += fmt::format("  {} {:.1f} %", class_name(answer.label), 100 * answer.probability);
    text += network.detects() && prediction.objects.empty() ? " nothing\n" : "\n";
    for (const Detection& found : prediction.objects)
      text += fmt::format("  {:.2f}  {:<20}  x {:7.1f}  y {:7.1f}  {:7.1f} x {:.1f}\n", found.score,
                          class_name(size_t(found.label)), found.box.x, found.box.y, found.box.width, found.box.height);
  }
  return text;
}

std::string PredictionReport::csv() const {
  std::string text = network.detects() ? "image,category_id,class,x,y,width,height,score\r\n"
                                       : "image,rank,index,class,probability\r\n";
  for (const Prediction& prediction : predictions) {
    const std::string name = quoted_field(image(prediction).path);
    int rank = 0;
    for (const RankedClass& answer : answers(prediction))
      text += fmt::format("{},{},{},{},{:.5f}\r\n", name, ++rank, answer.label, quoted_field(class_name(answer.label)),
                          answer.probability);
    for (const Detection& found : prediction.objects)
      text += fmt::format("{},{},{},{:.2f},{:.2f},{:.2f},{:.2f},{:.5f}\r\n", name, category_id(size_t(found.label)),
                          quoted_field(class_name(size_t(found.label))), found.box.x, found.box.y, found.box.width,
                          found.box.height, found.score);
  }
  return text;
}

}  // namespace octet
