#include "src/report/predictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Labels by falling probability.
std::vector<size_t> most_probable(const std::vector<float>& probabilities, int64_t top) {
  std::vector<size_t> labels(probabilities.size());
  std::iota(labels.begin(), labels.end(), size_t{0});
  std::ranges::stable_sort(labels, std::greater<>(), [&](size_t label) { return probabilities[label]; });
  labels.resize(std::min(labels.size(), size_t(top)));
  return labels;
}

}  // namespace

std::vector<std::string> prediction_objects(const Predictor& network, const Annotations& images,
                                            std::span<const Prediction> predictions, int64_t top) {
  const Classes& classes = network.classes();
  std::vector<std::string> objects;
  for (const Prediction& prediction : predictions) {
    const AnnotatedImage& image = images.images[size_t(prediction.image)];
    for (const Detection& found : prediction.objects) {
      const auto label = size_t(found.label);
      const auto& [x, y, width, height] = found.box;
      objects.push_back(fmt::format(R"({{"image_id": {}, "file_name": {}, "category_id": {}, "class": {}, )"
                                    R"("bbox": [{:.2f}, {:.2f}, {:.2f}, {:.2f}], "score": {:.5f}}})",
                                    image.id, text_of(image.path),
                                    classes.category_ids.empty() ? int64_t(label) + 1 : classes.category_ids[label],
                                    text_of(classes.names[label]), x, y, width, height, found.score));
    }
    if (network.detects()) continue;
    Json best = Json::array();
    for (const size_t label : most_probable(prediction.probabilities, top))
      best.push_back({{"index", label},
                      {"class", classes.names[label]},
                      {"probability", std::round(1e5 * prediction.probabilities[label]) / 1e5}});
    objects.push_back(text_of({{"image", image.path}, {"top", best}}));
  }
  return objects;
}

std::string prediction_text(const Predictor& network, const Annotations& images, const Prediction& prediction,
                            int64_t top) {
  const Classes& classes = network.classes();
  std::string text = images.images[size_t(prediction.image)].path + ":";
  if (!network.detects()) {
    for (const size_t label : most_probable(prediction.probabilities, top))
      text += fmt::format("  {} {:.1f} %", classes.names[label], 100 * prediction.probabilities[label]);
    return text + "\n";
  }
  text += prediction.objects.empty() ? " nothing\n" : "\n";
  for (const Detection& found : prediction.objects)
    text +=
        fmt::format("  {:.2f}  {:<20}  x {:7.1f}  y {:7.1f}  {:7.1f} x {:.1f}\n", found.score,
                    classes.names[size_t(found.label)], found.box.x, found.box.y, found.box.width, found.box.height);
  return text;
}

}  // namespace octet
