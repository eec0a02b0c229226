// Graphs are walked from outside, as an export does. What the plan computes follows from the attributes of the nodes
// alone: the shapes, the multiply-adds, and where each parameter belongs.
#include <map>

#include "src/graph/nodes/detection.h"
#include "tests/graph/harness.h"

namespace octet {
namespace {

// floor((in + zeros - reach) / stride) + 1
int64_t positions(int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation = 1) {
  return (in + 2 * pad - ((kernel - 1) * dilation + 1)) / stride + 1;
}

struct Walk {
  int64_t batch = 1;
  std::map<int, Shape> shapes;          // by edge
  std::map<int, bool> wants_gradient;   // by edge
  std::map<std::string, Shape> wanted;  // of parameters and statistics, by name
  int64_t kinds = 0;                    // of the node, must be one
  Shape output;
  int64_t products = 0;  // of the node in a training step

  Shape of(const Node& node, size_t input) const { return shapes.at(node.inputs()[input].id); }
  template <class Options>
  const Options* is(const Node& node) {
    const Options* const options = node.as<Options>();
    kinds += options != nullptr;
    return options;
  }

  void convolution(const Node& node, const ConvOptions& conv) {
    const Shape x = of(node, 0);
    const int64_t height = conv.linear ? x.h : conv.kernel.h, width = conv.linear ? x.w : conv.kernel.w;
    output = {x.n, positions(x.h, height, conv.stride, conv.pad.h, conv.dilation),
              positions(x.w, width, conv.stride, conv.pad.w, conv.dilation), conv.out};
    if (conv.same) output.h = (x.h + conv.stride - 1) / conv.stride, output.w = (x.w + conv.stride - 1) / conv.stride;
    const Shape weight{conv.out, height, width, x.c / conv.groups}, row{1, 1, 1, conv.out};
    const int passes = 1 + !conv.frozen + wants_gradient.at(node.inputs()[0].id);
    products = passes * output.pixels() * weight.elements();
    EXPECT_EQ(node.inputs().size(), conv.residual ? 2u : 1u);
    for (const NodeParam& param : node.params())
      wanted[param.name] = param.role == ParamRole::weight ? weight : param.role == ParamRole::range ? Shape{} : row;
  }

  void visit(const Node& node) {
    kinds = products = 0;
    output = {};
    bool passes_gradient = true, trains = false;
    if (const auto* conv = is<ConvOptions>(node)) convolution(node, *conv), trains = !conv->frozen;
    if (const auto* images = is<InputOptions>(node)) output = {batch, images->height, images->width, images->channels};
    if (const auto* pool = is<PoolOptions>(node)) {
      const Shape x = of(node, 0);
      const bool repeats = pool->kind == PoolKind::repeat;
      output = {x.n, repeats ? x.h * pool->kernel : positions(x.h, pool->kernel, pool->stride, pool->pad),
                repeats ? x.w * pool->kernel : positions(x.w, pool->kernel, pool->stride, pool->pad), x.c};
    }
    if (is<GlobalPoolOptions>(node)) output = {of(node, 0).n, 1, 1, of(node, 0).c};
    if (is<DropoutOptions>(node)) output = of(node, 0);
    if (is<ConcatOptions>(node)) {
      output = of(node, 0);
      for (size_t i = 1; i < node.inputs().size(); ++i) output.c += of(node, i).c;
    }
    if (const auto* proposals = is<ProposeOptions>(node)) {
      const int64_t regions = proposals->training ? proposals->samples : proposals->after_nms;
      output = {batch * regions, 1, 1, 8};
      passes_gradient = false;
    }
    if (const auto* pool = is<RoiPoolOptions>(node)) {
      const bool divides = pool->kind == RoiKind::position_sensitive;
      output = {of(node, node.inputs().size() - 1).n, pool->bins, pool->bins,
                divides ? of(node, 0).c / (pool->bins * pool->bins) : of(node, 0).c};
    }
    const bool ends = int(is<SoftmaxLossOptions>(node) != nullptr) + int(is<DenseLossOptions>(node) != nullptr) +
                      int(is<RoiLossOptions>(node) != nullptr) + int(is<DenseDetectOptions>(node) != nullptr) +
                      int(is<DetectOptions>(node) != nullptr);
    EXPECT_EQ(kinds, 1) << node.name() << ": " << node.kind();
    EXPECT_EQ(ends, node.output().id < 0) << node.name();
    for (const NodeParam& param : node.params())
      if (param.role == ParamRole::range) wanted[param.name] = {};
    if (ends) return;
    bool wants = trains;
    for (const Edge edge : node.inputs()) wants = wants || (passes_gradient && wants_gradient.at(edge.id));
    wants_gradient[node.output().id] = wants;
    shapes[node.output().id] = output;
  }
};

ParamKind kind_of(ParamRole role, bool linear) {
  if (role == ParamRole::weight) return linear ? ParamKind::linear_weight : ParamKind::conv_weight;
  return role == ParamRole::gamma ? ParamKind::norm_weight : ParamKind::bias;
}

// Each parameter and each statistic that evaluation reads is in the list of one node, or in those of all nodes of the
// layer that they share.
void expect_every_parameter(const Graph& graph, const Parameters& parameters, const Walk& walk) {
  std::map<std::string, std::vector<std::pair<const Node*, ParamRole>>> lists;
  for (const auto& node : graph.nodes())
    for (const NodeParam& param : node->params()) lists[param.name].push_back({node.get(), param.role});
  EXPECT_EQ(lists.size(), walk.wanted.size());
  size_t found = 0;
  for (const Param& param : parameters.all()) {
    const auto& list = lists[param.name];
    ASSERT_FALSE(list.empty()) << param.name;
    EXPECT_EQ(walk.wanted.at(param.name), param.shape) << param.name;
    ++found;
    for (size_t i = 0; i < list.size(); ++i) {
      const auto* const conv = list[i].first->as<ConvOptions>();
      EXPECT_EQ(param.kind, kind_of(list[i].second, conv->linear)) << param.name;
      EXPECT_EQ(param.shared, !conv->layer.empty()) << param.name;
      EXPECT_EQ(conv->layer, list[0].first->as<ConvOptions>()->layer) << param.name;
      EXPECT_TRUE(i == 0 || list[i].first != list[i - 1].first) << param.name << " twice in one node";
    }
    EXPECT_TRUE(param.shared || list.size() == 1) << param.name;
  }
  for (const Statistic& statistic : parameters.statistics()) {
    if (statistic.training_only) continue;
    const auto& list = lists[statistic.name];
    ASSERT_EQ(list.size(), 1u) << statistic.name;
    EXPECT_EQ(statistic.range, list[0].second == ParamRole::range) << statistic.name;
    EXPECT_EQ(statistic.initial, list[0].second == ParamRole::running_variance ? 1 : 0) << statistic.name;
    EXPECT_EQ(walk.wanted.at(statistic.name), statistic.tensor.shape) << statistic.name;
    ++found;
  }
  EXPECT_EQ(found, lists.size()) << "a node lists what the plan does not have";
}

void expect_walkable(const std::string& model, int64_t height, int64_t width, const std::string& policy, bool training,
                     const std::vector<std::string>& more = {}) {
  SCOPED_TRACE(model + (training ? ", training" : ", evaluation"));
  std::vector<std::string> settings = {"model.name=" + model, "policy.name=" + policy};
  settings.insert(settings.end(), more.begin(), more.end());
  const Config config = parse_config("model: {classes: 5}\n", "test.yaml", settings);
  const bool rounds = policy == "unified_int8";
  DryPlan dry(config, height, width, 2, {.storage = rounds ? DType::bf16 : DType::f32, .training = training});
  Plan* const plans[] = {&dry.plan};
  const auto arena = bind_plans(*dry.backend, dry.parameters, plans);
  const Memory& memory = dry.plan.memory();
  Walk walk{.batch = 2, .shapes = {}, .wants_gradient = {}, .wanted = {}, .output = {}};
  int64_t products = 0;
  for (const auto& node : dry.plan.graph().nodes()) {
    walk.visit(*node);
    EXPECT_EQ(walk.products, node->work(memory).products) << node->name();
    products += walk.products;
    if (node->output().id < 0) continue;
    EXPECT_EQ(walk.output, memory.values[size_t(node->output().id)].values.shape) << node->name();
  }
  EXPECT_GT(products, 0);
  EXPECT_EQ(products, dry.plan.work().products);
  EXPECT_EQ(walk.shapes.size(), memory.values.size());
  expect_every_parameter(dry.plan.graph(), dry.parameters, walk);
}

TEST(Walk, ClassifiersFollowFromTheirAttributes) {
  for (const bool training : {true, false}) {
    expect_walkable("resnet18", 64, 96, "unified_int8", training, {"train.freeze=layer2"});
    expect_walkable("mobilenet_v2", 96, 64, "unified_int8", training);
    expect_walkable("inception_v3", 299, 299, "unified_int8", training, {"model.dropout=0.5"});
    expect_walkable("efficientnet_lite0", 65, 97, "psq", training);
    expect_walkable("alexnet", 64, 64, "fp32", training);
  }
}

TEST(Walk, DetectorsFollowFromTheirAttributes) {
  const std::vector<std::string> small = {"model.backbone=resnet18"};
  for (const bool training : {true, false}) {
    expect_walkable("retinanet", 96, 128, "unified_int8", training, small);
    expect_walkable("retinanet", 96, 128, "unified_int8", training,
                    {"model.backbone=resnet18", "model.norm=frozen", "model.freeze_stages=2"});
    expect_walkable("faster_rcnn", 96, 128, "unified_int8", training, small);
    expect_walkable("faster_rcnn", 96, 128, "unified_int8", training, {"model.backbone=efficientnet_lite0"});
    expect_walkable("retinanet", 96, 128, "unified_int8", training, {"model.backbone=mobilenet_v2"});
    expect_walkable("faster_rcnn_c4", 96, 128, "unified_int8", training, small);
    expect_walkable("rfcn", 96, 128, "unified_int8", training, small);
  }
}

}  // namespace
}  // namespace octet
