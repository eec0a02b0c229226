#include <algorithm>
#include <filesystem>
#include <mutex>

#include "kernels/base/error.h"
#include "src/data/augment/canvases.h"
#include "src/data/sources/named_images.h"
#include "src/library/failure.h"
#include "src/library/messages.h"
#include "src/train/predictor.h"
#include "src/weights/trained_network.h"

namespace octet::library {

struct Network::Inside {
  explicit Inside(TrainedNetwork found) : network(found.config, *transport, found.weights) {}

  template <class Images, class Open>
  std::vector<Prediction> predict(const Images& images, const Open& open) {
    std::vector<Prediction> all;
    if (images.empty()) return all;
    const std::lock_guard lock(mutex);
    const std::unique_ptr<Dataset> data = open(network.config(), images, network.classes());
    for (octet::Prediction& of : network.predict(*data)) all.push_back(answer(std::move(of.answers)));
    return all;
  }

  Prediction answer(Answers of) const {
    const std::vector<std::string>& names = network.classes().names;
    Prediction answer;
    for (const Detection& found : of.detections)
      answer.objects.push_back({found.label, names[size_t(found.label)], found.score, found.box.x, found.box.y,
                                found.box.width, found.box.height});
    if (const auto best = std::ranges::max_element(of.probabilities); best != of.probabilities.end()) {
      answer.label = best - of.probabilities.begin();
      answer.name = names[size_t(answer.label)];
      answer.probability = *best;
    }
    answer.probabilities = std::move(of.probabilities);
    answer.logits = std::move(of.logits);
    return answer;
  }

  std::mutex mutex;
  const std::unique_ptr<Transport> transport = make_self_transport();
  Predictor network;
};

Network::Network(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}
Network::Network(Network&&) noexcept = default;
Network& Network::operator=(Network&&) noexcept = default;
Network::~Network() = default;

Network Network::load(const std::string& path, const std::vector<std::string>& overrides, double score) {
  return with_failures([&] {
    show_warnings();
    REQUIRE_USAGE(score >= 0 && score <= 1, "give a score from 0 to 1", "the least score of an object is ", score);
    TrainedNetwork found = find_network(path, "", overrides);
    if (task_of(found.config).objects) found.config.detect.score = score;
    return Network(std::make_unique<Inside>(std::move(found)));
  });
}

const std::vector<std::string>& Network::classes() const { return inside_->network.classes().names; }
bool Network::finds_objects() const { return inside_->network.task().objects; }
std::int64_t Network::input_height() const {
  return with_failures([&] { return input_shapes(inside_->network.config().data).front().height; });
}
std::int64_t Network::input_width() const {
  return with_failures([&] { return input_shapes(inside_->network.config().data).front().width; });
}

std::vector<Prediction> Network::predict_files(const std::vector<std::string>& files) {
  return with_failures([&] {
    return inside_->predict(files, [](const Config& config, const auto& all, const Classes& classes) {
      for (const std::string& file : all)
        REQUIRE_USAGE(!std::filesystem::is_directory(file), "name its files", file, " is a folder");
      return open_named_images(config, all, classes, BadFiles::refuse);
    });
  });
}

std::vector<Prediction> Network::predict(const std::vector<Image>& images) {
  return with_failures([&] {
    return inside_->predict(images, [](const Config& config, const auto& all, const Classes& classes) {
      std::vector<RgbPixels> pixels;
      for (const Image& image : all) pixels.push_back({image.pixels, image.height, image.width});
      return open_pixels(config, pixels, classes);
    });
  });
}

}  // namespace octet::library
