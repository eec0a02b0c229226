// Detection: each image has boxes with a class each. Networks are compared by average precision.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

#include "kernels/base/durable_file.h"
#include "kernels/base/text.h"
#include "src/data/annotations/detections.h"
#include "src/models/detectors.h"
#include "src/models/unread_keys.h"
#include "src/tasks/detection/figures.h"
#include "src/tasks/task.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

Graph network(const Config& config, const Policy& policy, int64_t height, int64_t width, bool training) {
  refuse_unread_keys(config);
  Graph graph(policy);
  make_detector(graph, input(graph, {height, width}), config, training);
  return graph;
}

// Writes RUN/detections.json.
class DetectionJudge final : public Judge {
 public:
  using Rules = DetectionFigures(const Annotations&, std::span<const Detection>);
  DetectionJudge(Rules& rules, const Annotations& truth) : rules_(rules), truth_(truth) {}

  std::string table() const override { return detection_table(judged_); }
  std::string csv() const override { return detection_csv(judged_); }
  std::string json() const override { return detection_json(judged_); }
  const DetectionFigures* detection_figures() const override { return &judged_; }
  void write(const std::string& run_directory, int64_t step) const override {
    try {
      write_detections(run_directory + "/detections.json", truth_, detections_);
    } catch (const FileError& error) {
      spdlog::warn("the detections of step {} are not kept: {}", step, error.what());
    }
  }

 protected:
  void keep(const Batch& batch, Answers& answers) override {
    for (const int64_t sample : batch.samples)
      if (sample >= 0) read_.push_back({sample});
    detections_.insert(detections_.end(), answers.detections.begin(), answers.detections.end());
  }
  void judge(Transport& transport, Heart& heart) override {
    detections_ = gather(transport, std::move(detections_));
    read_ = gather(transport, std::move(read_));
    heart.enter(activity::judging);
    judged_ =
        read_.size() == truth_.images.size() ? rules_(truth_, detections_) : rules_(readable_truth(), detections_);
    figures_ = judged_.figures;
    for (const DetectionFigures::Class& of : judged_.classes)
      if (of.objects > 0) by_class_.push_back({of.name, of.figures.front().value});
  }

 private:
  // Nobody can find the objects on an image that cannot be read.
  Annotations readable_truth() const {
    Annotations truth = truth_;
    std::vector<bool> was_read(truth.images.size());
    for (const ReadImage& of : read_) was_read[size_t(of.image)] = true;
    for (size_t i = 0; i < was_read.size(); ++i)
      if (!was_read[i]) truth.images[i].objects.clear();
    return truth;
  }

  struct ReadImage {
    int64_t image = 0;
  };
  Rules& rules_;
  const Annotations& truth_;
  std::vector<Detection> detections_;  // of this rank, and after finish() of all
  std::vector<ReadImage> read_;        // likewise
  DetectionFigures judged_;
};

// JSON: {"image_id": 1, "file_name": "a.jpg", "category_id": 3, "class": "cat", "bbox": [x, y, width, height], "score":
// 0.98765} for each object: COCO's results format with two names more. category_id: of the data that the network was
// trained on. CSV: image, category_id, class, x, y, width, height, score.
std::string quoted(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

class ObjectPresentation final : public Presentation {
 public:
  using Presentation::Presentation;

  std::vector<std::string> json(const ShownImage& image, const Answers& answers) const override {
    std::vector<std::string> objects;
    for (const Detection& found : answers.detections) {
      const auto& [x, y, width, height] = found.box;
      objects.push_back(fmt::format(R"({{"image_id": {}, "file_name": {}, "category_id": {}, "class": {}, )"
                                    R"("bbox": [{:.2f}, {:.2f}, {:.2f}, {:.2f}], "score": {}}})",
                                    image.id, quoted(image.path), category_id(found),
                                    quoted(class_name(size_t(found.label))), x, y, width, height,
                                    static_cast<float>(found.score)));
    }
    return objects;
  }

  std::string text(const Answers& answers) const override {
    std::string text = answers.detections.empty() ? " nothing\n" : "\n";
    for (const Detection& found : answers.detections)
      text += fmt::format("  {:.2f}  {:<20}  x {:7.1f}  y {:7.1f}  {:7.1f} x {:.1f}\n", found.score,
                          printable(class_name(size_t(found.label))), found.box.x, found.box.y, found.box.width,
                          found.box.height);
    return text;
  }

  std::string csv_names() const override { return "image,category_id,class,x,y,width,height,score\r\n"; }
  std::string csv(const ShownImage& image, const Answers& answers) const override {
    std::string lines;
    for (const Detection& found : answers.detections)
      lines += fmt::format("{},{},{},{:.2f},{:.2f},{:.2f},{:.2f},{:.5f}\r\n", csv_field(image.path), category_id(found),
                           csv_field(class_name(size_t(found.label))), found.box.x, found.box.y, found.box.width,
                           found.box.height, found.score);
    return lines;
  }

  std::vector<std::pair<std::string, double>> shares(const Answers& answers) const override {
    std::vector<std::pair<std::string, double>> all;
    for (const Detection& found : answers.detections) all.emplace_back(class_name(size_t(found.label)), found.score);
    return all;
  }

 private:
  int64_t category_id(const Detection& found) const {
    const auto label = size_t(found.label);
    return classes_.category_ids.empty() ? int64_t(label) + 1 : classes_.category_ids[label];
  }
};

std::unique_ptr<Presentation> present(const Classes& classes, const Presentation::Options& options) {
  return std::make_unique<ObjectPresentation>(classes, options);
}
template <DetectionJudge::Rules& rules>
std::unique_ptr<Judge> make_judge(const Dataset& test, bool /*keeps_answers*/) {
  return std::make_unique<DetectionJudge>(rules, *test.annotations());
}

}  // namespace

extern const Task coco_detection = {"detection", network, "AP", /*objects=*/true, make_judge<coco_ap>, present};
extern const Task voc_detection = {"detection", network, "mAP", /*objects=*/true, make_judge<voc_ap>, present};

}  // namespace octet
