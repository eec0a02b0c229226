// `octet bench --deployed`: how fast the integer network of a configuration answers, and where its time goes.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "comm/transport.h"
#include "src/data/loader.h"
#include "src/deploy/integer_policy.h"
#include "src/graph/nodes/conv_node.h"
#include "src/graph/plan.h"
#include "src/models/models.h"
#include "src/train/host_limits.h"
#include "src/train/rank.h"
#include "src/train/shares.h"
#include "src/version.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }
double median(std::vector<double> of) {
  std::ranges::nth_element(of, of.begin() + ptrdiff_t(of.size() / 2));
  return of[of.size() / 2];
}

Graph network(const Policy& policy, const Config& config) {
  Graph graph(policy);
  const int64_t side = image_side(config.data);
  make_model(graph, input(graph, {side, side}), config.model);
  return graph;
}

// Constants as a training might give them: kernels take the same time for any. Sums mostly stay within the codes.
IntegerLayer invented_layer(const ConvProblem& p, DType output, bool adds) {
  IntegerLayer layer;
  layer.output = output;
  layer.lowest = output == DType::u8 ? 0 : -127, layer.highest = output == DType::u8 ? 255 : 127;
  layer.weights.resize(size_t(p.weight().elements()));
  constexpr size_t drawn = 1 << 16;  // then they repeat
  for (size_t i = 0; i < layer.weights.size(); ++i)
    layer.weights[i] = i < drawn ? int8_t(int(philox(i, 0, 0, 0).word[0] % 255) - 127) : layer.weights[i - drawn];
  const double products = double(p.products() / p.y.elements()), unit = std::exp2(-22);
  const double factor = std::nearbyint((1 + 1 / std::sqrt(3)) / unit) * unit *
                        std::exp2(-std::round(std::log2(256 * std::sqrt(products))));
  for (int64_t c = 0; c < p.y.c; ++c) {
    layer.bias.push_back(int32_t(philox(uint64_t(c), 0, 0, 1).word[0] % 4001) - 2000);
    layer.factor.push_back(factor);
    if (adds) layer.residual_factor.push_back(0.59375);
  }
  return layer;
}

IntegerLayers invented_layers(const Config& config) {
  const std::unique_ptr<Policy> policy = make_policy(config);
  const Graph graph = network(*policy, config);
  std::vector<Shape> shapes(size_t(graph.edges()));
  std::vector<DType> types(shapes.size(), DType::s8);
  IntegerLayers layers;
  layers.input_range = 2.64f;
  for (const auto& node : graph.nodes()) {
    std::vector<Shape> of_inputs;
    for (const Edge edge : node->inputs()) of_inputs.push_back(shapes[size_t(edge.id)]);
    const auto y = size_t(node->output().id);
    shapes[y] = node->output_shape(of_inputs);
    if (!node->inputs().empty()) types[y] = types[size_t(node->inputs()[0].id)];
    if (const auto* const conv = dynamic_cast<const ConvNode*>(node.get())) {
      const bool logits = conv->options().gives_logits;
      types[y] = logits ? DType::f32 : conv->never_negative() ? DType::u8 : DType::s8;
      layers.by_node[node->name()] = invented_layer(conv->problem(), types[y], node->inputs().size() > 1);
    }
    if (node->as<GlobalPoolOptions>()) {
      const Shape x = of_inputs[0];
      const ConvProblem mean{.x = x, .y = shapes[y], .kernel_h = int(x.h), .kernel_w = int(x.w), .groups = int(x.c)};
      IntegerLayer layer = invented_layer(mean, types[y], false);
      std::ranges::fill(layer.weights, int8_t(1));
      layers.by_node[node->name()] = std::move(layer);
    }
  }
  return layers;
}

class DeployedBench {
 public:
  DeployedBench(const Config& config, Transport& transport)
      : config_(config),
        policy_(invented_layers(config)),
        shares_(transport, int(config.backend.threads)),
        backend_(make_backend(config, policy_, transport, shares_, 0)),
        parameters_(policy_, *backend_),
        plan_(network(policy_, config), parameters_, policy_, *backend_, {}, config.data.batch, {.training = false}),
        images_(plan_.image_bytes() / sizeof(float)),
        labels_(size_t(config.data.batch)) {
    Plan* const plans[] = {&plan_};
    arena_ = bind_plans(*backend_, parameters_, plans);
    for (size_t i = 0; i < images_.size(); ++i) images_[i] = float(i * 2654435761u % 4096) / 1024 - 2;
    plan_.load(step_, images_.data(), {.labels = labels_.data()});
    for (int64_t i = 0; i < warm_up; ++i) answer();
  }

  // Seconds of each answer to a batch, from pixels to logits.
  std::vector<double> answers(int64_t count) {
    std::vector<double> seconds;
    for (int64_t i = 0; i < count; ++i) {
      const auto start = Clock::now();
      answer();
      seconds.push_back(seconds_since(start));
    }
    return seconds;
  }

  // One object for each node, in order.
  Json layers(int64_t count) {
    const auto& nodes = plan_.graph().nodes();
    std::vector<std::vector<double>> seconds(nodes.size());
    for (int64_t i = 0; i < count; ++i)
      backend_->run(Backend::unrecorded, {}, [&] {
        for (size_t n = 0; n < nodes.size(); ++n) {
          const auto start = Clock::now();
          nodes[n]->forward(step_);
          backend_->synchronize();
          seconds[n].push_back(seconds_since(start));
        }
      });
    double total = 0;
    for (const auto& of : seconds) total += median(of);
    Json layers = Json::array();
    for (size_t n = 0; n < nodes.size(); ++n) {
      const Shape& y = plan_.layout().shapes[size_t(nodes[n]->output().id)];
      const double time = median(seconds[n]), products = double(nodes[n]->work(plan_.memory()).products);
      layers.push_back({{"name", nodes[n]->name()},
                        {"kind", nodes[n]->kind()},
                        {"output", {y.h, y.w, y.c}},
                        {"ms", 1e3 * time},
                        {"share", time / total},
                        {"products_per_second", products / time}});
    }
    return layers;
  }

  const Backend& backend() const { return *backend_; }
  int threads() const { return shares_.threads(); }
  size_t arena_bytes() const { return plan_.arena_bytes(); }
  double products() const { return double(plan_.work().products); }

 private:
  static constexpr int64_t warm_up = 3;  // answers: the arena's pages, the kernels' scratch

  void answer() {
    backend_->run(Backend::unrecorded, {}, [&] { plan_.forward(step_); });
    backend_->synchronize();
  }

  const Config& config_;
  const IntegerPolicy policy_;
  const JobShares shares_;
  std::unique_ptr<Backend> backend_;
  Parameters parameters_;
  Plan plan_;
  std::unique_ptr<Buffer> arena_;
  std::vector<float> images_;
  std::vector<int32_t> labels_;
  Step step_{.backend = *backend_, .memory = plan_.memory(), .held = {}, .training = false, .measures = false};
};

Json measure(const Config& config, Transport& transport, int64_t count) {
  DeployedBench bench(config, transport);
  std::vector<double> seconds = bench.answers(count);
  // Before what only this command needs.
  const auto resident = double(bytes_in_proc("/proc/self/status", "VmHWM"));
  std::ranges::sort(seconds);
  const double middle = seconds[seconds.size() / 2], batch = double(config.data.batch);
  return {{"config", config.file},
          {"network", config.model.name},
          {"batch", config.data.batch},
          {"side", image_side(config.data)},
          {"backend", bench.backend().name()},
          {"isa", bench.backend().isa()},
          {"threads", bench.threads()},
          {"answers", count},
          {"images_per_second", batch / middle},
          {"ms", 1e3 * middle},
          {"ms_min", 1e3 * seconds.front()},
          {"ms_max", 1e3 * seconds.back()},
          {"products_per_second", bench.products() / middle},
          {"arena_bytes", bench.arena_bytes()},
          {"scratch_bytes", bench.backend().scratch_bytes()},
          {"peak_resident_bytes", resident},
          {"layers", bench.layers(count)},
          {"commit", commit}};
}

void print(const Json& result) {
  const auto number = [](const Json& value, double factor = 1) { return factor * value.get<double>(); };
  const auto text = [](const Json& value) { return value.get<std::string>(); };
  fmt::print("{}, {} x {} pixels, batch {}: {} {}, {} threads\n", text(result["network"]), result["side"].dump(),
             result["side"].dump(), result["batch"].dump(), text(result["backend"]), text(result["isa"]),
             result["threads"].dump());
  fmt::print(
      "{:.1f} images/s, {:.2f} ms median of {} ({:.2f} to {:.2f}), {:.0f} G products/s, peak resident {:.1f} MB\n\n",
      number(result["images_per_second"]), number(result["ms"]), result["answers"].dump(), number(result["ms_min"]),
      number(result["ms_max"]), number(result["products_per_second"], 1e-9),
      number(result["peak_resident_bytes"], 1e-6));
  fmt::print("{:<28} {:<16} {:<14} {:>9} {:>7} {:>14}\n", "layer", "kind", "output", "ms", "share", "G products/s");
  for (const Json& layer : result["layers"]) {
    const auto& y = layer["output"];
    const double rate = number(layer["products_per_second"], 1e-9);
    fmt::print("{:<28} {:<16} {:<14} {:9.3f} {:5.1f} % {:>14}\n", text(layer["name"]), text(layer["kind"]),
               fmt::format("{}x{}x{}", y[0].dump(), y[1].dump(), y[2].dump()), number(layer["ms"]),
               number(layer["share"], 100), rate > 0 ? fmt::format("{:.1f}", rate) : "");
  }
}

}  // namespace

int bench_deployed(const Config& config, Transport& transport, int64_t answers, bool json) {
  REQUIRE_USAGE(transport.size() == 1, "start it without mpirun", "octet bench --deployed runs on one rank, not on ",
                transport.size());
  const Json result = measure(config, transport, answers);
  if (json)
    fmt::print("{}\n", result.dump());
  else
    print(result);
  return 0;
}

}  // namespace octet
