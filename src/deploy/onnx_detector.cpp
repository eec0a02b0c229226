#include "src/deploy/onnx_detector.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "src/config/foreign_json.h"

namespace octet {
namespace {

using Names = std::vector<std::string>;
constexpr float largest_ratio = 4.135166556742356f;  // as in decode_box()

class Appender {
 public:
  Appender(OnnxGraph& graph, const DenseDetectOptions& options, const Shape& canvas)
      : graph_(graph), options_(options), canvas_(canvas) {
    for (const DenseLevel& level : options.levels) anchors_ += level.anchors.count();
  }

  void append(const Names& logits, const Names& deltas) {
    const std::string boxes = decode(joined(deltas, "deltas", 4));
    Names considered;
    for (size_t level = 0; level < logits.size(); ++level)
      considered.push_back(best_of_level(rows(logits[level], "logits", level, options_.classes), level));
    const std::string all = concat(considered, "logits");
    const std::string scores = node("Transpose", {node("Sigmoid", {all}, "by_anchor")}, "by_class");
    graph_.set("perm", std::vector<int64_t>{0, 2, 1});
    choose(boxes, kept(boxes, scores));
  }

 private:
  static std::string named(const std::string& name) { return detector_prefix + name; }
  std::string node(const char* type, const Names& inputs, const std::string& output) {
    return graph_.node(type, inputs, named(output));
  }
  std::string row(const std::string& name, const std::vector<int64_t>& of) {
    return graph_.constant(named(name), {int64_t(of.size())}, of);
  }

  // The answers of a level, (N, anchors, width) in the order of the anchors.
  std::string rows(const std::string& from, const std::string& name, size_t level, int64_t width) {
    const std::string own = say(name, ".", level);
    const std::string last = node("Transpose", {from}, own + ".channels_last");
    graph_.set("perm", std::vector<int64_t>{0, 2, 3, 1});
    return node("Reshape", {last, row(own + ".shape", {0, -1, width})}, own);
  }
  std::string concat(const Names& parts, const std::string& name) {
    const std::string all = node("Concat", parts, name);
    graph_.set("axis", 1);
    return all;
  }
  std::string joined(const Names& levels, const std::string& name, int64_t width) {
    Names parts;
    for (size_t level = 0; level < levels.size(); ++level) parts.push_back(rows(levels[level], name, level, width));
    return concat(parts, name);
  }

  // Only the best answers of a level are considered; the others get a logit that no score reaches.
  std::string best_of_level(const std::string& logits, size_t level) {
    if (options_.levels[level].anchors.count() * options_.classes <= options_.of_level) return logits;
    const std::string own = say("best.", level);
    const std::string flat = node("Reshape", {logits, row(own + ".shape", {0, -1})}, own + ".flat");
    graph_.node("TopK", {flat, row(own + ".count", {options_.of_level})},
                Names{named(own + ".values"), named(own + ".indices")});
    const std::string least = node("ReduceMin", {named(own + ".values"), row(own + ".axis", {1})}, own + ".least");
    const std::string among = node("GreaterOrEqual", {flat, least}, own + ".among");
    const std::string chosen =
        node("Where", {among, flat, graph_.number(named(own + ".none"), -100.0f)}, own + ".chosen");
    return node("Reshape", {chosen, row(own + ".rows", {0, -1, options_.classes})}, own);
  }

  // Boxes (N, anchors, 4): left, top, right, bottom on the canvas. See decode_box().
  std::string decode(const std::string& deltas) {
    std::vector<float> centers, sizes;
    std::vector<AnchorLevel> levels;
    for (const DenseLevel& level : options_.levels) levels.push_back(level.anchors);
    for (const Box& anchor : make_anchors(levels)) {
      centers.insert(centers.end(), {anchor.center_x(), anchor.center_y()});
      sizes.insert(sizes.end(), {anchor.width(), anchor.height()});
    }
    const std::string center = graph_.constant(named("anchors.centers"), {1, anchors_, 2}, centers);
    const std::string size = graph_.constant(named("anchors.sizes"), {1, anchors_, 2}, sizes);
    graph_.node("Split", {deltas, row("deltas.halves", {2, 2})}, Names{named("deltas.moves"), named("deltas.ratios")});
    graph_.set("axis", 2);
    const std::string middle =
        node("Add", {node("Mul", {named("deltas.moves"), size}, "boxes.moves"), center}, "boxes.middles");
    const std::string bounded =
        node("Min", {named("deltas.ratios"), graph_.number(named("deltas.most"), largest_ratio)}, "deltas.bounded");
    const std::string half = node("Mul",
                                  {node("Mul", {node("Exp", {bounded}, "boxes.ratios"), size}, "boxes.sizes"),
                                   graph_.number(named("boxes.half"), 0.5f)},
                                  "boxes.halves");
    const std::string free =
        node("Concat", {node("Sub", {middle, half}, "boxes.first"), node("Add", {middle, half}, "boxes.last")},
             "boxes.free");
    graph_.set("axis", 2);
    const auto w = float(canvas_.w), h = float(canvas_.h);
    const std::string most = graph_.constant<float>(named("boxes.most"), {1, 1, 4}, {w, h, w, h});
    const std::string positive = node("Max", {free, graph_.number(named("boxes.least"), 0.0f)}, "boxes.positive");
    return node("Min", {positive, most}, "boxes.all");
  }

  // Scores (N, classes * anchors), and 0 where a better box of the class suppresses one.
  std::string kept(const std::string& boxes, const std::string& scores) {
    const std::string selected = node("NonMaxSuppression",
                                      {boxes, scores, row("suppression.most", {options_.detections}),
                                       graph_.constant<float>(named("suppression.overlap"), {1}, {options_.overlap}),
                                       graph_.constant<float>(named("suppression.score"), {1}, {options_.score})},
                                      "selected");
    const std::string zeros = node("Mul", {scores, graph_.number(named("kept.none"), 0.0f)}, "kept.zeros");
    const std::string values = node("GatherND", {scores, selected}, "kept.values");
    const std::string kept = node("ScatterND", {zeros, selected, values}, "kept.all");
    return node("Reshape", {kept, row("kept.shape", {0, -1})}, "kept");
  }

  // The best of an image.
  void choose(const std::string& boxes, const std::string& kept) {
    const int64_t count = std::min(options_.detections, anchors_ * options_.classes);
    graph_.node("TopK", {kept, row("objects.count", {count})}, Names{"scores", named("objects.indices")});
    const std::string anchors = graph_.number(named("objects.anchors"), anchors_);
    const std::string label = graph_.node("Div", {named("objects.indices"), anchors}, "labels");
    const std::string before = node("Mul", {label, anchors}, "objects.before");
    const std::string anchor = node("Sub", {named("objects.indices"), before}, "objects.anchor");
    const std::string index = node("Unsqueeze", {anchor, row("objects.axis", {2})}, "objects.index");
    // Not GatherND with batch_dims: with it OpenVINO 2026.4.1 answers wrongly while N is free.
    graph_.node("GatherElements", {boxes, node("Tile", {index, row("objects.sides", {1, 1, 4})}, "objects.box")},
                "boxes");
    graph_.set("axis", 1);
    OnnxGraph::describe(graph_.add_output(), "boxes", {0, count, 4});
    OnnxGraph::describe(graph_.add_output(), "scores", {0, count});
    OnnxGraph::describe(graph_.add_output(), "labels", {0, count}, onnx::TensorProto::INT64);
  }

  OnnxGraph& graph_;
  const DenseDetectOptions& options_;
  const Shape canvas_;
  int64_t anchors_ = 0;
};

}  // namespace

void append_detector(OnnxGraph& graph, const DenseDetectOptions& options, const Shape& canvas,
                     const std::vector<std::string>& logits, const std::vector<std::string>& deltas) {
  Appender(graph, options, canvas).append(logits, deltas);
}

std::string detector_text(const DenseDetectOptions& options) {
  nlohmann::ordered_json text = {{"classes", options.classes},
                                 {"score", options.score},
                                 {"overlap", options.overlap},
                                 {"of_level", options.of_level},
                                 {"detections", options.detections}};
  for (const DenseLevel& level : options.levels) {
    const AnchorLevel& anchors = level.anchors;
    text["levels"].push_back({{"tensors", {level.logits.id, level.deltas.id}},
                              {"map", {anchors.height, anchors.width}},
                              {"stride", anchors.stride},
                              {"sizes", anchors.sizes},
                              {"ratios", anchors.ratios}});
  }
  return text.dump();
}

DenseDetectOptions read_detector(const std::string& text, const std::string& path) {
  DenseDetectOptions options;
  try {
    const auto all = parse_foreign_json(text, path, /*levels=*/4);
    options.classes = all.at("classes"), options.score = all.at("score"), options.overlap = all.at("overlap");
    options.of_level = all.at("of_level"), options.detections = all.at("detections");
    for (const auto& of : all.at("levels")) {
      DenseLevel& level = options.levels.emplace_back();
      level.logits.id = of.at("tensors").at(0), level.deltas.id = of.at("tensors").at(1);
      AnchorLevel& anchors = level.anchors;
      anchors.height = of.at("map").at(0), anchors.width = of.at("map").at(1);
      anchors.stride = of.at("stride");
      anchors.sizes = of.at("sizes").get<std::vector<float>>(),
      anchors.ratios = of.at("ratios").get<std::vector<float>>();
    }
  } catch (const nlohmann::json::exception& error) {
    REQUIRE_USAGE(false, "export the network again", path, ": the metadata `detector` cannot be read: ", error.what());
  }
  return options;
}

}  // namespace octet
