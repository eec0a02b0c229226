// The regions that an RPN proposes (Ren et al., "Faster R-CNN", NIPS 2015): its best answers, decoded and clipped to
// the image, and of overlapping ones of a level only the best. In training the objects join them, and of all these a
// random choice trains the layers behind; the node also writes what each region finds. The work is the host's, in the
// device's order. No gradient passes: regions are constants.
#include <algorithm>

#include "kernels/shared/match.h"
#include "src/graph/nodes/candidates.h"
#include "src/graph/nodes/dense_levels.h"

namespace octet {
namespace {

constexpr float smallest_proposal = 1e-3f;  // of a proposal, in pixels

// Where the work writes. Rows of all images follow each other.
struct Output {
  std::span<RoiRow> rows;
  std::span<int32_t> labels;  // the three are empty in evaluation
  std::span<float> weights;
  std::span<BoxCode> boxes;

  Output of_image(size_t image, size_t count) const {
    const auto part = [&](auto all) { return all.empty() ? all : all.subspan(image * count, count); };
    return {part(rows), part(labels), part(weights), part(boxes)};
  }
};

class Propose final : public NodeOf<ProposeOptions> {
 public:
  Propose(std::string name, const ProposeOptions& options, const Regions& regions)
      : NodeOf(std::move(name), edges_of(options.levels), regions.table, options), targets_(regions.targets) {}
  std::string kind() const override { return "proposals"; }
  bool reads_real(const Policy&, Edge) const override { return true; }
  bool writes_real() const override { return true; }
  bool differentiable() const override { return false; }
  Shape output_shape(const std::vector<Shape>& inputs) override {
    anchors_ = place_anchors(options_.levels, inputs, 1);
    return {inputs[0].n * count(), 1, 1, sizeof(RoiRow) / sizeof(float)};
  }
  void declare(Declare& d) override {
    rows_ = d.shape(output_).n;
    if (!targets_) return;
    targets_->labels = d.input(size_t(rows_) * sizeof(int32_t));
    targets_->weights = d.input(size_t(rows_) * sizeof(float));
    targets_->boxes = d.input(size_t(rows_) * sizeof(BoxCode));
  }
  // The device may reach this node when the loader has given the memory of the batch to another one.
  void load(const Targets& targets, Step&) override {
    REQUIRE(targets.truth && int64_t(targets.truth->images.size()) * count() == rows_, "give the truth of every image",
            "the batch has no truth of ", rows_ / count(), " images");
    truth_ = *targets.truth;
  }
  void forward(Step& step) override {
    Timed timed(step.times, Phase::forward);
    std::vector<Tensor> reads, writes{step.value(output_).values};
    for (const Edge edge : inputs_) reads.push_back(step.value(edge).values);
    if (targets_)
      for (const auto& [input, floats] : {std::pair(targets_->labels, 1), {targets_->weights, 1}, {targets_->boxes, 4}})
        writes.push_back({step.memory.inputs[size_t(input)], {rows_, 1, 1, floats}, DType::f32});
    step.backend.on_host(reads, writes, [this, seed = step.seed](auto from, auto to, const StepState& now) {
      propose(from, to, {seed, now.step, layer_id_of(index_, Role::activation), now.first_sample});
    });
  }

 private:
  int64_t count() const { return options_.training ? options_.samples : options_.after_nms; }  // regions of an image

  template <class T>
  std::span<T> elements(const Tensor& tensor) const {
    return {tensor.as<T>(), size_t(rows_)};
  }

  // first: the key of the batch's first image.
  void propose(std::span<const Tensor> answers, std::span<const Tensor> writes, const RngKey& first) const {
    Output all{elements<RoiRow>(writes[0]), {}, {}, {}};
    if (targets_)
      all = {all.rows, elements<int32_t>(writes[1]), elements<float>(writes[2]), elements<BoxCode>(writes[3])};
    const size_t rows = size_t(count());
#pragma omp parallel for schedule(dynamic)
    for (size_t image = 0; image < truth_.images.size(); ++image) {
      const Output to = all.of_image(image, rows);
      std::ranges::fill(to.rows, RoiRow{});
      std::ranges::fill(to.labels, -1);
      std::ranges::fill(to.weights, 0.0f);
      std::ranges::fill(to.boxes, BoxCode{});
      if (truth_.images[image].index < 0) continue;
      std::vector<Box> regions = proposals(answers, image);
      RngKey key = first;
      key.first += image;
      if (targets_) write_sampled(regions, key, image, to);
      for (size_t i = 0; !targets_ && i < regions.size(); ++i) to.rows[i] = row_of(regions[i]);
    }
  }

  // The proposals of one image, the best first.
  std::vector<Box> proposals(std::span<const Tensor> answers, size_t image) const {
    const Truth::Image& of = truth_.images[image];
    const auto width = float(of.content_width), height = float(of.content_height);
    std::vector<Candidate> candidates;
    std::span<const Box> anchors = anchors_;
    for (size_t level = 0; level < options_.levels.size(); ++level) {
      const size_t size = size_t(options_.levels[level].anchors.count());
      const float* const logits = answers[2 * level].f32() + image * size;
      const float* const deltas = answers[2 * level + 1].f32() + image * size * 4;
      std::vector<float> scores(logits, logits + size);
      for (size_t i = 0; i < size; ++i)  // there is padding, not an image
        if (anchors[i].center_x() >= width || anchors[i].center_y() >= height)
          scores[i] = -std::numeric_limits<float>::infinity();
      for (const int32_t i : top_scores(scores, options_.before_nms)) {
        const float* const delta = deltas + size_t(i) * 4;
        const Box box =
            clip_to_image(decode_box({delta[0], delta[1], delta[2], delta[3]}, anchors[size_t(i)]), width, height);
        if (box.width() >= smallest_proposal && box.height() >= smallest_proposal)
          candidates.push_back({box, scores[size_t(i)], int32_t(level)});
      }
      anchors = anchors.subspan(size);
    }
    std::vector<Box> boxes;
    for (const int32_t i : best_candidates(candidates, options_.overlap, options_.after_nms))
      boxes.push_back(candidates[size_t(i)].box);
    return boxes;
  }

  RoiRow row_of(const Box& box) const {
    const int level = pyramid_level(box, options_.lowest_level, options_.highest_level) - options_.lowest_level;
    return {box.x1, box.y1, box.x2, box.y2, float(level), 1};
  }

  // Adds the image's objects to the regions, samples, and writes the sampled regions and what they find.
  void write_sampled(std::vector<Box>& regions, const RngKey& key, size_t image, const Output& to) const {
    const Truth::Image& of = truth_.images[image];
    const std::span objects = std::span(truth_.objects).subspan(of.first, of.count);
    std::vector<Box> places;
    for (const Truth::Object& object : objects) places.push_back(object.box);
    regions.insert(regions.end(), places.begin(), places.end());
    std::vector<int32_t> matches(regions.size());
    match({.positive = options_.positive, .negative = options_.negative, .every_object = false}, regions, places,
          matches);
    const Sampled sampled = sample_matches({options_.samples, double(options_.fraction)}, key, matches);
    size_t next = 0;
    for (size_t i = 0; i < regions.size(); ++i) {
      if (matches[i] == ignored) continue;
      const bool finds = matches[i] >= 0;
      const size_t object = finds ? size_t(matches[i]) : 0;
      to.rows[next] = row_of(regions[i]);
      to.labels[next] = finds ? objects[object].label + 1 : 0;
      to.weights[next] = 1 / float(sampled.all());
      if (finds) to.boxes[next] = encode_box(places[object], regions[i], region_weights);
      ++next;
    }
  }

  std::shared_ptr<RegionTargets> targets_;  // null in evaluation
  std::vector<Box> anchors_;                // of all levels
  int64_t rows_ = 0;                        // of all images
  Truth truth_;                             // of the last load()
};

}  // namespace

Regions propose(Graph& graph, const std::string& name, const ProposeOptions& options) {
  Regions regions{graph.new_edge(), options.training ? std::make_shared<RegionTargets>() : nullptr};
  graph.append(std::make_unique<Propose>(name, options, regions));
  return regions;
}

}  // namespace octet
