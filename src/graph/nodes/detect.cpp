// Turns a dense detector's answers into detections: the best answers of each level, decoded and clipped to the image,
// and of overlapping ones of a class only the best. Host code, which runs after the plan's forward.
#include <algorithm>

#include "kernels/shared/math.h"
#include "src/graph/nodes/dense_levels.h"

namespace octet {
namespace {

struct Candidate {
  Box box;
  float score;
  int32_t label;
};

class Detect final : public Node {
 public:
  Detect(const std::vector<DenseLevel>& levels, const DetectOptions& options)
      : Node("detect", edges_of(levels), {}), options_(options), levels_(levels) {}
  std::string kind() const override { return "detect"; }
  Shape output_shape(const std::vector<Shape>& inputs) override {
    anchors_ = place_anchors(levels_, inputs, options_.classes);
    return {};
  }
  bool reads_real(const Policy&, Edge) const override { return true; }
  void declare(Declare&) override {}
  void load(const Targets& targets, Step&) override { images_ = targets.truth->images; }
  void forward(Step&) override {}
  void backward(Step&) override {}

  void detect(const Step& step, std::vector<Detection>& found) const override {
    std::vector<std::vector<float>> logits, deltas;
    for (const DenseLevel& level : levels_) {
      logits.push_back(on_host(step, level.logits));
      deltas.push_back(on_host(step, level.deltas));
    }
    for (size_t image = 0; image < images_.size(); ++image) {
      const Truth::Image& of = images_[image];
      if (of.index < 0) continue;
      std::vector<Candidate> candidates;
      size_t first_anchor = 0;
      for (size_t i = 0; i < levels_.size(); ++i) {
        const size_t count = size_t(levels_[i].anchors.count()), classes = size_t(options_.classes);
        consider(std::span(logits[i]).subspan(image * count * classes, count * classes),
                 std::span(deltas[i]).subspan(image * count * 4, count * 4),
                 std::span(anchors_).subspan(first_anchor, count), of, candidates);
        first_anchor += count;
      }
      choose(candidates, of, found);
    }
  }

 private:
  static std::vector<float> on_host(const Step& step, Edge edge) {
    const Tensor values = step.value(edge).values;
    std::vector<float> copy(size_t(values.elements()));
    step.backend.to_host(copy.data(), values.data, values.bytes());
    return copy;
  }

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

  void choose(const std::vector<Candidate>& candidates, const Truth::Image& of, std::vector<Detection>& found) const {
    std::vector<Box> boxes;
    std::vector<float> scores;
    for (const Candidate& candidate : candidates) {
      boxes.push_back(candidate.box);
      scores.push_back(candidate.score);
    }
    const std::vector<int32_t> order = top_scores(scores, int64_t(scores.size()));
    std::vector<float> kept_scores(scores.size(), -1.0f);
    for (int32_t label = 0; label < options_.classes; ++label) {
      std::vector<int32_t> of_label;
      std::ranges::copy_if(order, std::back_inserter(of_label),
                           [&](int32_t i) { return candidates[size_t(i)].label == label; });
      for (const int32_t i : suppress_overlaps(boxes, of_label, options_.overlap))
        kept_scores[size_t(i)] = scores[size_t(i)];
    }
    for (const int32_t i : top_scores(kept_scores, options_.detections, -0.5f)) {
      const Box& box = boxes[size_t(i)];
      const double left = double(box.x1) / of.scale_x, top = double(box.y1) / of.scale_y;
      found.push_back({.image = of.index,
                       .label = candidates[size_t(i)].label,
                       .score = scores[size_t(i)],
                       .box = {left, top, double(box.x2) / of.scale_x - left, double(box.y2) / of.scale_y - top}});
    }
  }

  DetectOptions options_;
  std::vector<DenseLevel> levels_;
  std::vector<Box> anchors_;
  std::vector<Truth::Image> images_;  // of the last load()
};

}  // namespace

std::unique_ptr<Node> make_detect(const std::vector<DenseLevel>& levels, const DetectOptions& options) {
  return std::make_unique<Detect>(levels, options);
}

}  // namespace octet
