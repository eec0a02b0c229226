// The loss of a dense detector: focal loss of the classes (Lin et al. 2017, equation 5) and smooth L1 loss of the
// boxes, for every anchor of every level. Each image's losses are divided by the number of its anchors that find an
// object, so the gradient does not depend on the other images. If anchors are sampled (Ren et al., "Faster R-CNN", NIPS
// 2015, section 3.1), only those train, and the number of them divides. Forward also writes the gradients.
#include <algorithm>

#include "kernels/shared/match.h"
#include "src/graph/nodes/dense_levels.h"

namespace octet {
namespace {

class DenseLoss final : public NodeOf<DenseLossOptions> {
 public:
  using NodeOf::NodeOf;
  std::string kind() const override { return "dense loss"; }
  Shape output_shape(const std::vector<Shape>& inputs) override {
    anchors_ = place_anchors(options_.levels, inputs, options_.classes);
    images_ = inputs[0].n;
    return {};
  }
  bool reads_real(const Policy&, Edge) const override { return true; }
  bool writes_gradient_forward() const override { return true; }

  void declare(Declare& d) override {
    for (const DenseLevel& level : options_.levels) {
      const size_t count = size_t(images_ * level.anchors.count());
      targets_.push_back({.labels = d.input(count * sizeof(int32_t)),
                          .boxes = d.input(count * sizeof(BoxCode)),
                          .class_report = d.loss({.name = options_.class_name}),
                          .box_report = d.loss({.name = options_.box_name, .compared = "anchors_found"})});
    }
    scale_ = d.input(size_t(images_) * sizeof(float));
  }

  void load(const Targets& targets, Step& step) override {
    REQUIRE(targets.truth && int64_t(targets.truth->images.size()) == images_, "give the truth of every image",
            "the batch has no truth of ", images_, " images");
    std::vector<std::span<int32_t>> labels;
    std::vector<std::span<BoxCode>> boxes;
    for (size_t i = 0; i < options_.levels.size(); ++i) {
      const size_t count = size_t(images_ * options_.levels[i].anchors.count());
      labels.push_back(place(step, targets_[i].labels, count, targets_[i].staged_labels));
      boxes.push_back(place(step, targets_[i].boxes, count, targets_[i].staged_boxes));
      std::ranges::fill(labels[i], -1);
    }
    const std::span<float> scale = place(step, scale_, size_t(images_), staged_scale_);
    for (size_t image = 0; image < scale.size(); ++image)
      scale[image] =
          assign(*targets.truth, image, step.key(index_, Role::activation, 1, int64_t(image)), labels, boxes);
    if (step.backend.host_memory()) return;
    for (const OfLevel& of : targets_) {
      send(step, of.labels, of.staged_labels);
      send(step, of.boxes, of.staged_boxes);
    }
    send(step, scale_, staged_scale_);
  }

  void forward(Step& step) override {
    Timed timed(step.times, Phase::forward);
    const auto* scale = static_cast<const float*>(step.memory.inputs[size_t(scale_)]);
    for (size_t i = 0; i < options_.levels.size(); ++i) {
      const Tensor logits = step.value(options_.levels[i].logits).values,
                   deltas = step.value(options_.levels[i].deltas).values;
      const auto* labels = static_cast<const int32_t*>(step.memory.inputs[size_t(targets_[i].labels)]);
      const int anchors = int(options_.levels[i].anchors.per_pixel());
      const SigmoidProblem classes{
          .anchors = anchors, .classes = options_.classes, .alpha = options_.alpha, .gamma = options_.gamma};
      step.backend.sigmoid_loss({classes, logits, labels, scale, step.gradient_scale,
                                 step.into(options_.levels[i].logits).tensor,
                                 step.memory.losses + targets_[i].class_report});
      const BoxLossProblem box{
          .boxes = anchors, .rows_per_scale = logits.shape.h * logits.shape.w, .beta = options_.beta};
      const Tensor boxes{step.memory.inputs[size_t(targets_[i].boxes)], deltas.shape, DType::f32};
      step.backend.box_loss({box, deltas, boxes, labels, scale, step.gradient_scale,
                             step.into(options_.levels[i].deltas).tensor, step.memory.losses + targets_[i].box_report});
    }
  }

 private:
  struct OfLevel {
    int labels = -1, boxes = -1;  // by Declare::input(): (N, H, W, anchors) i32, and as many BoxCode
    int class_report = -1, box_report = -1;
    std::vector<int32_t> staged_labels = {};  // for a device with memory of its own
    std::vector<BoxCode> staged_boxes = {};
  };

  // Where the host writes an input: in its place, or in `staged` for a device with memory of its own.
  template <class T>
  static std::span<T> place(const Step& step, int input, size_t count, std::vector<T>& staged) {
    if (step.backend.host_memory()) return {static_cast<T*>(step.memory.inputs[size_t(input)]), count};
    staged.resize(count);
    return staged;
  }
  template <class T>
  static void send(const Step& step, int input, const std::vector<T>& from) {
    step.backend.to_device(step.memory.inputs[size_t(input)], from.data(), from.size() * sizeof(T));
  }

  // Writes what each anchor of an image is to answer; the boxes only of anchors that find an object, since the loss
  // reads no others. Returns the factor of the image's losses.
  float assign(const Truth& truth, size_t image, const RngKey& key, std::span<const std::span<int32_t>> labels,
               std::span<const std::span<BoxCode>> boxes) const {
    const Truth::Image& of = truth.images[image];
    if (of.index < 0) return 0;
    const std::span objects = std::span(truth.objects).subspan(of.first, of.count);
    std::vector<Box> places;
    for (const Truth::Object& object : objects) places.push_back(object.box);
    std::vector<int32_t> matches(anchors_.size());
    match({.positive = options_.positive,
           .negative = options_.negative,
           .width = float(of.content_width),
           .height = float(of.content_height)},
          anchors_, places, matches);
    Sampled sampled;
    if (options_.samples > 0) sampled = sample_matches({options_.samples, double(options_.fraction)}, key, matches);
    int64_t found = 0;
    size_t anchor = 0;
    for (size_t i = 0; i < options_.levels.size(); ++i) {
      const size_t count = size_t(options_.levels[i].anchors.count());
      for (size_t at = image * count; at < (image + 1) * count; ++at, ++anchor) {
        const int32_t object = matches[anchor];
        if (object == ignored) continue;
        labels[i][at] = object < 0 ? 0 : options_.classes == 1 ? 1 : objects[size_t(object)].label + 1;
        if (object < 0) continue;
        boxes[i][at] = encode_box(places[size_t(object)], anchors_[anchor]);
        ++found;
      }
    }
    return 1 / float(std::max<int64_t>(options_.samples > 0 ? sampled.all() : found, 1));
  }

  std::vector<Box> anchors_;  // of all levels
  std::vector<OfLevel> targets_;
  int64_t images_ = 0;
  int scale_ = -1;                   // by Declare::input(): (N) f32
  std::vector<float> staged_scale_;  // for a device with memory of its own
};

}  // namespace

void dense_loss(Graph& graph, const std::string& name, const DenseLossOptions& options) {
  graph.append(std::make_unique<DenseLoss>(name, edges_of(options.levels), Edge{}, options));
}

}  // namespace octet
