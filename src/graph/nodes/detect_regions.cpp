// Turns the answers for regions into detections: each region's box of each class that is likely enough, and of
// overlapping ones of a class only the best. Host code, which runs after the plan's forward.
#include <algorithm>

#include "kernels/shared/math.h"
#include "src/graph/nodes/candidates.h"

namespace octet {
namespace {

constexpr float smallest_detection = 0.01f;  // of a detection, in pixels

class DetectRegions final : public NodeOf<DetectOptions> {
 public:
  using NodeOf::NodeOf;
  std::string kind() const override { return "detect in regions"; }
  Shape output_shape(const std::vector<Shape>& inputs) override {
    const Shape &logits = inputs[0], &deltas = inputs[1], &table = inputs[2];
    choices_ = deltas.c / 4;
    REQUIRE(logits.c == options_.classes + 1 && deltas.c == choices_ * 4 && logits.n == table.n && deltas.n == table.n,
            "give a logit for background and each class, and four deltas for each box", "regions have ", logits.c,
            " logits and ", deltas.c, " deltas for ", options_.classes, " classes");
    return {};
  }
  bool reads_real(const Policy&, Edge) const override { return true; }
  void load(const Targets& targets, Step&) override { images_ = targets.truth->images; }
  void forward(Step&) override {}

  void detect(const Step& step, std::vector<Detection>& found) const override {
    std::vector<float> copies[3];
    const auto logits = host_values(step, inputs_[0], copies[0]), deltas = host_values(step, inputs_[1], copies[1]),
               table = host_values(step, inputs_[2], copies[2]);
    const size_t count = size_t(step.value(inputs_[2]).values.shape.n) / images_.size();
    for (size_t image = 0; image < images_.size(); ++image) {
      const Truth::Image& of = images_[image];
      if (of.index < 0) continue;
      std::vector<Candidate> candidates;
      for (size_t region = image * count; region < (image + 1) * count; ++region) {
        const float* const row = table.data() + region * (sizeof(RoiRow) / sizeof(float));
        if (row[5] == 0) break;  // RoiRow::valid; the regions of an image come first
        consider({row[0], row[1], row[2], row[3]}, logits.data() + region * size_t(options_.classes + 1),
                 deltas.data() + region * size_t(choices_) * 4, of, candidates);
      }
      add_detections(candidates, options_, of, found);
    }
  }

 private:
  // Adds the answers for one region. Softmax over background and the classes.
  void consider(const Box& region, const float* logits, const float* deltas, const Truth::Image& of,
                std::vector<Candidate>& candidates) const {
    const double largest = double(*std::max_element(logits, logits + options_.classes + 1));
    double sum = 0;
    for (int k = 0; k <= options_.classes; ++k) sum += exponential(double(logits[k]) - largest);
    for (int label = 0; label < options_.classes; ++label) {
      const auto score = float(exponential(double(logits[label + 1]) - largest) / sum);
      if (!(score > options_.score)) continue;
      const float* const delta = deltas + (choices_ == options_.classes + 1 ? label + 1 : choices_ - 1) * 4;
      const Box box = clip_to_image(decode_box({delta[0], delta[1], delta[2], delta[3]}, region, region_weights),
                                    float(of.content_width), float(of.content_height));
      if (box.width() >= smallest_detection && box.height() >= smallest_detection)
        candidates.push_back({box, score, label});
    }
  }

  int64_t choices_ = 1;               // boxes of a region: one for background and each class, or one for all classes
  std::vector<Truth::Image> images_;  // of the last load()
};

}  // namespace

void detect_regions(Graph& graph, Edge logits, Edge deltas, const Regions& regions, const DetectOptions& options) {
  graph.append(std::make_unique<DetectRegions>("detect", std::vector{logits, deltas, regions.table}, Edge{}, options));
}

}  // namespace octet
