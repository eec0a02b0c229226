// Turns a dense detector's answers into detections: the best answers of each level, decoded and clipped to the image,
// and of overlapping ones of a class only the best. Host code, which runs after the plan's forward.
#include <algorithm>

#include "kernels/shared/math.h"
#include "src/graph/nodes/candidates.h"
#include "src/graph/nodes/dense_levels.h"

namespace octet {
namespace {

class Detect final : public NodeOf<DenseDetectOptions> {
 public:
  using NodeOf::NodeOf;
  std::string kind() const override { return "detect"; }
  Shape output_shape(const std::vector<Shape>& inputs) override {
    anchors_ = place_anchors(options_.levels, inputs, options_.classes);
    return {};
  }
  bool reads_real(const Policy&, Edge) const override { return true; }
  void load(const Targets& targets, Step&) override { images_ = targets.truth->images; }
  void forward(Step&) override {}

  void detect(const Step& step, std::vector<Detection>& found) const override {
    std::vector<std::vector<float>> copies(2 * options_.levels.size());
    std::vector<std::span<const float>> logits, deltas;
    for (size_t i = 0; i < options_.levels.size(); ++i) {
      logits.push_back(host_values(step, options_.levels[i].logits, copies[2 * i]));
      deltas.push_back(host_values(step, options_.levels[i].deltas, copies[2 * i + 1]));
    }
    for (size_t image = 0; image < images_.size(); ++image) {
      const Truth::Image& of = images_[image];
      if (of.index < 0) continue;
      std::vector<Candidate> candidates;
      size_t first_anchor = 0;
      for (size_t i = 0; i < options_.levels.size(); ++i) {
        const size_t count = size_t(options_.levels[i].anchors.count()), classes = size_t(options_.classes);
        consider(logits[i].subspan(image * count * classes, count * classes),
                 deltas[i].subspan(image * count * 4, count * 4), std::span(anchors_).subspan(first_anchor, count), of,
                 candidates);
        first_anchor += count;
      }
      add_detections(candidates, options_, of, found);
    }
  }

 private:
  // Adds the best answers of one level.
  void consider(std::span<const float> logits, std::span<const float> deltas, std::span<const Box> anchors,
                const Truth::Image& of, std::vector<Candidate>& candidates) const {
    const double least = std::clamp(double(options_.score), 1e-9, 1 - 1e-9);
    const auto limit = float(natural_log(least / (1 - least)));
    for (const int32_t best : top_scores(logits, options_.of_level, limit)) {
      const size_t anchor = size_t(best) / size_t(options_.classes);
      const float* const delta = deltas.data() + anchor * 4;
      const Box box = clip_to_image(decode_box({delta[0], delta[1], delta[2], delta[3]}, anchors[anchor]),
                                    float(of.content_width), float(of.content_height));
      const double score = 1 / (1 + exponential(-double(logits[size_t(best)])));
      candidates.push_back({box, float(score), int32_t(best % options_.classes)});
    }
  }

  std::vector<Box> anchors_;
  std::vector<Truth::Image> images_;  // of the last load()
};

}  // namespace

void detect(Graph& graph, const DenseDetectOptions& options) {
  graph.append(std::make_unique<Detect>("detect", edges_of(options.levels), Edge{}, options));
}

}  // namespace octet
