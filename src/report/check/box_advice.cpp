#include "src/report/check/box_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "kernels/base/error.h"
#include "src/config/yaml.h"
#include "src/data/annotations/recognise.h"
#include "src/quant/policy.h"
#include "src/report/check/placement.h"
#include "src/train/memory_need.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

constexpr const char* detector = "faster_rcnn";
constexpr int64_t usual_short_side = 288, least_object = 12;       // pixels of the network's input
constexpr double longest = 2;                                      // longer side of an input / shorter one
constexpr int64_t seen_in_tuning = 7500, seen_in_scratch = 20000;  // images of a training, over all epochs

int64_t bad_boxes_of(const Annotations& all) {
  int64_t bad = all.without_class;
  for (const AnnotatedImage& image : all.images)
    for (const Object& object : image.objects) bad += fault_of(object.box, image.width, image.height) != BoxFault::none;
  return bad;
}

// Counts images whose files are not there. UsageError: none is.
int64_t absent_of(const Annotations& all, const std::string& root) {
  std::error_code failed;
  const auto absent =
      std::ranges::count_if(all.images, [&](const AnnotatedImage& image) { return !fs::exists(image.path, failed); });
  REQUIRE_USAGE(absent < std::ssize(all.images), "put the images where the annotations say", root, ": none of ",
                all.images.size(), " annotated images is there, such as ", all.images.front().path);
  return absent;
}

// What stands at this share of the sorted values.
double at_share(std::vector<double> values, double share) {
  const auto at = values.begin() + ptrdiff_t(share * double(values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}
int64_t multiple_of_32(double pixels) { return std::max<int64_t>(1, std::llround(pixels / 32)) * 32; }

class DetectorAdvisor : private Choices {
 public:
  DetectorAdvisor(const BoxFacts& facts, const std::string& weights) : facts_(facts), weights_(weights) {
    std::vector<std::vector<double>> sides(facts.train.classes.size());  // of objects, as shares of the shorter side
    for (const AnnotatedImage& image : facts.train.images) {
      if (image.width <= 0 || image.height <= 0) continue;
      const double width = image.width, height = image.height, short_side = std::min(width, height);
      short_sides_.push_back(short_side);
      aspects_.push_back(std::max(width, height) / short_side);
      (width >= height ? wide_ : high_) += 1;
      for (const Object& object : image.objects)
        if (object.box.width > 0 && object.box.height > 0)
          sides[size_t(object.label)].push_back(std::sqrt(object.box.width * object.box.height) / short_side);
    }
    REQUIRE_USAGE(std::ranges::any_of(sides, [](const auto& of_class) { return !of_class.empty(); }),
                  "annotate objects, and give images that can be read", facts.config.data.root,
                  ": no image with a known size has an object");
    measure_classes(sides);
  }

  std::vector<Choice> choices(int64_t memory, int cores) {
    choose_sizes();
    choose_anchors();
    model();
    data(cores);
    batch(memory, cores);
    training();
    return take();
  }

 private:
  static std::string list_of(const std::vector<int64_t>& numbers) {
    return fmt::format("[{}]", fmt::join(numbers, ", "));
  }

  // A class counts as much as another one, however many objects it has. Rare ones tell little.
  void measure_classes(const std::vector<std::vector<double>>& sides) {
    const auto most = std::ranges::max_element(sides, {}, &std::vector<double>::size)->size();
    for (size_t label = 0; label < sides.size(); ++label) {
      if (sides[label].size() < std::min<size_t>(most, 10)) continue;
      const double first = at_share(sides[label], 0.25), last = at_share(sides[label], 0.75);
      if (small_ == 0 || first < small_) small_ = first, small_class_ = facts_.train.classes[label];
      if (last > large_) large_ = last, large_class_ = facts_.train.classes[label];
    }
  }

  // The shorter side of inputs, at which small objects keep some pixels, and the canvases.
  void choose_sizes() {
    const double own = at_share(short_sides_, 0.5);
    const double wanted = std::max(double(usual_short_side), double(least_object) / small_);
    short_side_ = multiple_of_32(std::min({wanted, 800.0, std::max(own, 96.0)}));
    long_side_ = multiple_of_32(std::ceil(std::min(at_share(aspects_, 0.95), longest) * double(short_side_) / 32) * 32);
    const double all = wide_ + high_;
    if (wide_ >= 0.02 * all) heights_.push_back(short_side_), widths_.push_back(long_side_);
    if (high_ >= 0.02 * all && (heights_.empty() || short_side_ != long_side_))
      heights_.push_back(long_side_), widths_.push_back(short_side_);
  }

  // Four sizes, one for each level: evenly spaced from the small objects to the large ones, or as `octet check`
  // proposes, where anchors then find more objects.
  void choose_anchors() {
    const double first = std::max(8.0, small_ * double(short_side_));
    const double last = std::max(2 * first, large_ * double(short_side_));
    std::vector<int64_t> even;
    for (int i = 0; i < 4; ++i) even.push_back(std::llround(first * std::pow(last / first, i / 3.0)));
    Config config = facts_.config;
    config.model.name = detector;
    config.data.short_side = short_side_;
    config.data.long_side = long_side_;
    config.data.canvas_heights = heights_;
    config.data.canvas_widths = widths_;
    const auto place_with = [&](const std::vector<int64_t>& sizes) {
      config.model.anchor_sizes = sizes;
      return placed(facts_.train, config.data, anchors_of(config));
    };
    const Placement of_even = place_with(even);
    const AnchorRule rule = anchors_of(config);
    const std::vector<int64_t> fitting = sizes_that_fit(of_even, rule);
    anchors_ = even, found_ = found_share_of_classes(of_even, rule.positive), overlap_ = rule.positive;
    if (fitting.empty()) return;
    const double found = found_share_of_classes(place_with(fitting), rule.positive);
    if (found > found_) anchors_ = fitting, found_ = found;
  }

  void model() {
    add("model.name", detector, "found most objects in octet's comparison of detectors on few images");
    add("model.classes", fmt::to_string(facts_.train.classes.size()), "as the annotations name them");
    add("model.backbone", weights_.empty() ? "resnet18" : backbone_of(weights_),
        weights_.empty() ? "small enough for a CPU" : "the network of the weights");
    if (!weights_.empty())
      add("model.initial_backbone", fs::absolute(weights_).string(), "what it has learned elsewhere");
    add("model.neck_channels", "128", "half of the paper's: less work");
    add("model.head_channels", "512", "likewise");
    add("model.anchor_sizes", list_of(anchors_),
        fmt::format("some anchor overlaps {:.0f} % of the objects by {:g}, the mean of the classes; a quarter of `{}` "
                    "are smaller than {:.0f} pixels, a quarter of `{}` larger than {:.0f}",
                    100 * found_, overlap_, shown(small_class_), small_ * double(short_side_), shown(large_class_),
                    large_ * double(short_side_)));
    add("rpn.before_nms", "1000", "proposals of an image while training; the paper's 2000 cost time");
    add("rpn.before_nms_test", "500", "likewise");
    add("rpn.after_nms", "300", "likewise");
    add("rpn.after_nms_test", "150", "likewise");
    add("roi.samples", "128", "regions of an image that train");
  }

  void data(int cores) {
    const Config::Data& data = facts_.config.data;
    add("data.name", data.name, "recognised by " + facts_.found);
    add("data.root", data.root, fmt::format("{} images train, {} are judged", facts_.train.images.size(), facts_.test));
    for (const auto& [key, value] : {std::pair("data.annotations", data.annotations),
                                     {"data.annotations_test", data.annotations_test},
                                     {"data.images", data.images},
                                     {"data.images_test", data.images_test}})
      if (!value.empty()) add(key, value, "as the folders are named");
    if (data.holdout > 0)
      add("data.holdout", fmt::format("{}", data.holdout),
          "there is no set for evaluation: these images judge the network");
    if (facts_.bad_boxes > 0)
      add("data.bad_boxes", "drop",
          fmt::format(
              "{} boxes have no pixel of their image, or no class; `octet check` lists them, and `stop` refuses "
              "them",
              facts_.bad_boxes));
    if (facts_.absent > 0)
      add("data.bad_images", "skip",
          fmt::format("{} of the annotated images are not there; `octet check` lists them, and `stop` refuses them",
                      facts_.absent));
    add("data.short_side", fmt::to_string(short_side_),
        fmt::format("the images' median is {:.0f}; {}", at_share(short_sides_, 0.5),
                    short_side_ > usual_short_side ? "with fewer pixels small objects would be lost"
                                                   : "fewer pixels take less time"));
    add("data.long_side", fmt::to_string(long_side_), "images that are longer become smaller");
    add("data.canvas_heights", list_of(heights_), heights_.size() > 1 ? "of wide and of high images" : "all are alike");
    add("data.canvas_widths", list_of(widths_), "multiples of 32 that hold nearly all images");
    if (!weights_.empty()) add_pixels(weights_, backbone_of(weights_));
    add("data.workers", fmt::to_string(cores), "threads that decode images, one for each core");
  }

  void batch(int64_t memory, int cores) {
    Config config = this->config();
    const HostMemory host = host_memory(config, cores);
    const auto needed = [&](int64_t batch) {
      config.data.batch = batch;
      return memory_needed(config, 1, host).total();
    };
    const auto images = int64_t(facts_.train.images.size());
    batch_ = 8;
    while (batch_ > 1 && images / batch_ < 10) batch_ /= 2;
    bool limited = false;
    while (batch_ > 1 && needed(batch_) > memory) batch_ /= 2, limited = true;
    add("data.batch", fmt::to_string(batch_),
        fmt::format("{:.0f} MB of memory{}", double(needed(batch_)) / 1e6,
                    limited ? ": more does not fit into half of the free memory" : ""));
  }

  void training() {
    const auto images = int64_t(facts_.train.images.size());
    const int64_t seen = weights_.empty() ? seen_in_scratch : seen_in_tuning;
    const int64_t epochs = std::clamp<int64_t>(seen / images, 4, 80);
    add("train.epochs", fmt::to_string(epochs),
        fmt::format("{} steps {}", epochs * std::max<int64_t>(1, images / batch_),
                    weights_.empty() ? "from random weights; --weights FILE begins with a trained backbone"
                                     : "from a trained backbone"));
    add("train.lr", fmt::format("{:.4g}", 0.02 * double(batch_) / 8), "usual for this batch");
    add("train.schedule", "cosine", "falls to 0 at the end");
    add("train.warmup_epochs", epochs >= 10 ? "2" : "1", "new layers begin with small steps");
    add("train.decay", "1.0e-4", "usual for detectors");
    add("train.eval_every_epochs", fmt::to_string(std::max<int64_t>(1, epochs / 5)), "an evaluation takes a while");
  }

  const BoxFacts& facts_;
  const std::string& weights_;
  std::vector<double> short_sides_, aspects_;
  double wide_ = 0, high_ = 0;    // images
  double small_ = 0, large_ = 0;  // the sides of small and of large objects, as shares of the image's shorter side
  std::string small_class_, large_class_;
  int64_t short_side_ = 0, long_side_ = 0, batch_ = 0;
  std::vector<int64_t> heights_, widths_, anchors_;
  double found_ = 0;  // the share of objects that an anchor overlaps by overlap_, the mean of the classes
  float overlap_ = 0;
};

}  // namespace

std::optional<BoxFacts> look_at_boxes(const std::string& root, int cores) {
  BoxFacts facts;
  Config& config = facts.config;
  facts.found = recognise_annotations(root, config.data);
  if (facts.found.empty()) return {};
  config.data.workers = cores;
  config.data.bad_boxes = "drop";
  if (!has_test_set(config.data)) config.data.holdout = kept_share;
  facts.train = read_all_annotations(config, Split::train);
  const Annotations test = read_all_annotations(config, Split::test);
  say_doubts({&facts.train, &test});
  require_objects_to_find(test, config.data.root);
  facts.test = int64_t(test.images.size());
  facts.bad_boxes = bad_boxes_of(facts.train) + bad_boxes_of(test);
  facts.absent = absent_of(facts.train, config.data.root) + absent_of(test, config.data.root);
  return facts;
}

std::vector<Choice> choose_detector(const BoxFacts& facts, const std::string& weights, int64_t memory, int cores) {
  return DetectorAdvisor(facts, weights).choices(memory, cores);
}

}  // namespace octet
