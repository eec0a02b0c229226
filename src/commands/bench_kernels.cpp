// `octet bench kernels`: the bandwidth of memory, and each hot kernel at the sizes of real layers, on all allowed cores
// or on a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <thread>

#include "comm/transport.h"
#include "kernels/layer_cases.h"
#include "kernels/shared/anchors.h"
#include "kernels/shared/match.h"
#include "src/train/rank.h"
#include "src/train/shares.h"

namespace octet {
namespace {

// Detectors whose own operations are measured: a pyramid of maps from 1/4 of the image on, and regions of each image.
struct Detector {
  const char* name;
  int64_t batch, height, width, channels, rois;
  int classes;
};
constexpr Detector detectors[] = {{"detection/288x384", 8, 288, 384, 128, 128, 3},
                                  {"detection/800x1344", 2, 800, 1344, 256, 512, 80}};

// Median milliseconds of a call, measured for at least a tenth of a second and five rounds of `calls` calls. The device
// is waited for once in a round.
double time_of(Backend& backend, int calls, const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  call();
  backend.synchronize();
  std::vector<double> times;
  for (double total = 0; total < 0.1 || times.size() < 5;) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    backend.synchronize();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    times.push_back(seconds / calls);
    total += seconds;
  }
  std::sort(times.begin(), times.end());
  return 1e3 * times[times.size() / 2];
}

class KernelBench {
 public:
  KernelBench(Backend& backend, int threads, const std::string& filter, bool json)
      : backend_(backend), threads_(threads), filter_(filter), json_(json) {}

  void run(const LayerCase& layer) {
    const auto wanted = [&](const char* kernel) { return wants(say(layer.name, "/", kernel)); };
    if (std::ranges::count_if(kernels, wanted) == 0) return;
    const ConvProblem problem =
        layer.problem(backend_.host_memory() ? layer.batch : std::max<int64_t>(layer.batch, gpu_batch));

    buffers_.clear();
    // Types as in training: unsigned codes behind an activation.
    const QTensor x = codes(problem.x, DType::u8), y = codes(problem.y, DType::u8);
    const QTensor w = codes(problem.weight(), DType::s8), error = codes(problem.y, DType::s8);
    const Tensor convolved = tensor(problem.y, DType::bf16), dy = tensor(problem.y, DType::bf16);
    const Tensor dx = tensor(problem.x, DType::bf16), dw = tensor(problem.weight(), DType::f32);
    const std::vector<float> ones(size_t(8 * layer.out), 1.0f);
    float* const channels = static_cast<float*>(copied(ones.data(), ones.size() * sizeof(float)));
    const Moments moments{channels, channels + layer.out};  // extremes: only where a range is of the batch
    const AffineParameters parameters{channels + 4 * layer.out, channels + 5 * layer.out};
    const Into d_gamma{{channels + 6 * layer.out, {1, 1, 1, layer.out}, DType::f32}};
    const Into d_beta{{channels + 7 * layer.out, {1, 1, 1, layer.out}, DType::f32}};
    AffineProblem affine;
    affine.shape = problem.y;
    affine.activation = Activation::relu;
    const Tensor mask = tensor(mask_shape(problem.y), DType::u8);
    Encoding activation{.dtype = DType::u8, .qmax = 255},
        gradient{.dtype = DType::s8, .rounding = Rounding::stochastic};
    activation.range = gradient.range = Range::held;
    const float clip = 1;
    activation.held = gradient.held = static_cast<float*>(copied(&clip, sizeof clip));
    const uint64_t none = 0;
    auto* const saturated = static_cast<uint64_t*>(copied(&none, sizeof none));

    const std::string prefix = std::string(layer.name) + "/";
    const double operations = 2.0 * double(problem.products()), y_elements = double(problem.y.elements());
    const auto bytes = [](auto... tensors) { return double((tensors.bytes() + ...)); };  // each operand moves once
    report(prefix + "forward", operations, bytes(x.values, w.values, convolved), &Backend::conv_forward,
           {problem, x, w, convolved, {&moments, 1}});
    report(prefix + "backward_data", operations, bytes(error.values, w.values, dx), &Backend::conv_backward_data,
           {problem, error, w, {dx}});
    report(prefix + "backward_weight", operations, bytes(x.values, error.values, dw), &Backend::conv_backward_weight,
           {problem, x, error, {dw}});
    if (takes_pixels(problem)) run_pixels(problem, prefix, {&moments, 1});
    report(prefix + "affine_forward", 0, 3 * y_elements, &Backend::affine_forward,
           {affine, convolved, moments, parameters, {}, activation, {}, y, {.saturated = saturated}, mask});
    report(prefix + "affine_backward", 0, 9 * y_elements, &Backend::affine_backward,
           {.problem = affine,
            .x = convolved,
            .moments = moments,
            .parameters = parameters,
            .mask = mask,
            .dy = dy,
            .d_gamma = d_gamma,
            .d_beta = d_beta,
            .encoding = gradient,
            .grad_output = error,
            .probe = {.saturated = saturated}});
  }

  // The first layer, on images of bytes.
  void run_pixels(const ConvProblem& p, const std::string& prefix, std::span<const Moments> moments) {
    const PixelScale pixels{{0.017f, 0.017f, 0.017f}, {-2, -2, -2}};
    const Tensor x = tensor({p.x.n, p.x.h, p.x.w, pixel_channels}, DType::u8), w = tensor(p.weight(), DType::f32);
    const Tensor y = tensor(p.y, DType::bf16), dy = tensor(p.y, DType::f32), dw = tensor(p.weight(), DType::f32);
    const double operations = 2.0 * double(p.products());
    report(prefix + "pixel_forward", operations, double(x.bytes() + w.bytes() + y.bytes()), &Backend::pixel_forward,
           {p, pixels, x, w, y, moments});
    report(prefix + "pixel_backward_weight", operations, double(x.bytes() + dy.bytes() + dw.bytes()),
           &Backend::pixel_backward_weight, {p, pixels, x, dy, {dw}});
  }

  void run(const Detector& detector) {
    buffers_.clear();
    const std::string prefix = std::string(detector.name) + "/";
    run_regions(detector, prefix);
    run_losses(detector, prefix);
    if (backend_.host_memory()) run_host_work(detector, prefix);
  }

  // On the host: a[i] = b[i] + 3 c[i] on arrays far larger than any cache. The bandwidth of memory as STREAM counts it.
  void run_triad() {
    const char* const name = "memory/triad";
    if (!wants(name)) return;
    const int64_t elements = 32 << 20, threads = threads_;
    std::vector<float> a(elements, 0.0f), b(elements, 1.0f), c(elements, 2.0f);
    report(name, 0, 3 * sizeof(float) * double(elements), [&] {
      std::vector<std::jthread> workers;
      for (int64_t t = 0; t < threads; ++t)
        workers.emplace_back([&, t] {
          for (int64_t i = elements * t / threads; i < elements * (t + 1) / threads; ++i) a[i] = b[i] + 3.0f * c[i];
        });
    });
  }

  void finish() {
    constexpr size_t shown = 6;
    std::vector<std::string> examples;
    const std::vector<std::string> names(names_.begin(), names_.end());
    for (size_t i = 0; i < shown; ++i) examples.push_back(names[i * (names.size() - 1) / (shown - 1)]);
    REQUIRE_USAGE(found_ > 0, "names are such as " + joined(examples, ", "), "none of ", names_.size(),
                  " kernels matches --filter");
    if (json_) fmt::print("{}\n", results_.dump());
  }

 private:
  static constexpr int64_t gpu_batch = 256;
  static constexpr const char* kernels[] = {"forward",        "backward_data",         "backward_weight",
                                            "pixel_forward",  "pixel_backward_weight", "affine_forward",
                                            "affine_backward"};

  // RoIAlign over four levels, with two samples of a bin along an axis. Operations: those of forward's weighted sums.
  void run_regions(const Detector& d, const std::string& prefix) {
    RoiProblem problem;
    std::vector<QTensor> levels;
    std::vector<Into> gradients;
    for (int64_t stride = 4; stride <= 32; stride *= 2) {
      const Shape shape{d.batch, d.height / stride, d.width / stride, d.channels};
      problem.levels.push_back(shape), problem.scales.push_back(1.0f / float(stride));
      levels.push_back(codes(shape, DType::s8)), gradients.push_back({tensor(shape, DType::bf16)});
    }
    problem.rois = d.rois, problem.y = {d.batch * d.rois, 7, 7, d.channels};
    std::vector<RoiRow> rows;
    for (int64_t i = 0; i < problem.y.n; ++i) {
      const Random128 random = philox(uint64_t(i), 0, 1, 1);
      const auto share = [&](int k) { return float(random.word[k] >> 8) * 0x1p-24f; };
      const int level = int(i % 4);
      const float side = 48.0f * float(1 << level), x = share(0) * (float(d.width) - side),
                  y = share(1) * (float(d.height) - side);
      rows.push_back({x, y, x + side, y + side * (0.5f + 0.5f * share(2)), float(level), 1});
    }
    const Tensor table{copied(rows.data(), rows.size() * sizeof(RoiRow)), {problem.y.n, 1, 1, 8}, DType::f32};
    const QTensor y = codes(problem.y, DType::s8);
    const Tensor dy = tensor(problem.y, DType::bf16);
    double bytes = 0;
    for (const Shape& level : problem.levels) bytes += double(level.elements());
    report(prefix + "roi_align_forward", 2.0 * 20 * double(problem.y.elements()), 0, &Backend::roi_pool_forward,
           {problem, levels, table, y});
    report(prefix + "roi_align_backward", 0, 2 * (bytes + double(problem.y.elements())), &Backend::roi_pool_backward,
           {problem, levels, table, dy, gradients});
    PoolProblem repeat{problem.levels[1], {}, 2};
    repeat.kind = PoolKind::repeat, repeat.y = pooled_shape(repeat);
    const QTensor repeated = codes(repeat.y, DType::s8);
    report(prefix + "repeat_forward", 0, 1.25 * double(repeat.y.elements()), &Backend::pool_forward,
           {repeat, levels[1], repeated});
  }
  // The focal loss of nine anchors a pixel and the loss of their boxes, on the map of 1/8.
  void run_losses(const Detector& d, const std::string& prefix) {
    const SigmoidProblem problem{9, d.classes, 0.25f, 2};
    const Shape map{d.batch, d.height / 8, d.width / 8, 9L * d.classes}, boxes{d.batch, map.h, map.w, 36};
    const Tensor logits = tensor(map, DType::f32), predictions = tensor(boxes, DType::f32);
    const Tensor targets = tensor({map.pixels() * 9, 1, 1, 4}, DType::f32);
    std::vector<int32_t> labels(size_t(map.pixels()) * 9);
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = i % 500 == 0 ? 1 : 0;
    const auto* own = static_cast<const int32_t*>(copied(labels.data(), labels.size() * sizeof(int32_t)));
    const std::vector<float> ones(size_t(d.batch), 1);
    const auto* scale = static_cast<const float*>(copied(ones.data(), ones.size() * sizeof(float)));
    const LossReport none;
    auto* const to = static_cast<LossReport*>(copied(&none, sizeof none));
    const Tensor d_logits = tensor(map, DType::bf16), d_boxes = tensor(boxes, DType::bf16);
    report(prefix + "sigmoid_loss", 0, 6.0 * double(map.elements()), &Backend::sigmoid_loss,
           {problem, logits, own, scale, 1, d_logits, to});
    report(prefix + "box_loss", 0, 10.0 * double(boxes.elements()), &Backend::box_loss,
           {{9, 1, map.h * map.w, 0}, predictions, targets, own, scale, 1, d_boxes, to});
  }
  // On one core: the best 2000 of 200,000 scores, their suppression, and the matches of RetinaNet's anchors with twenty
  // objects.
  void run_host_work(const Detector& d, const std::string& prefix) {
    std::vector<float> scores(200000);
    std::vector<Box> boxes(scores.size());
    for (size_t i = 0; i < scores.size(); ++i) {
      const Random128 random = philox(i, 0, 2, 1);
      const auto share = [&](int k) { return float(random.word[k] >> 8) * 0x1p-24f; };
      scores[i] = share(0);
      boxes[i] = {share(1) * 1000, share(2) * 600, share(1) * 1000 + 128, share(2) * 600 + 128};
    }
    std::vector<int32_t> order;
    report(prefix + "top_scores", 0, 4.0 * double(scores.size()), [&] { order = top_scores(scores, 2000); });
    order = top_scores(scores, 2000);
    report(prefix + "suppress_overlaps", 0, 16.0 * double(order.size()),
           [&] { suppress_overlaps(boxes, order, 0.7f, 1000); });
    std::vector<AnchorLevel> levels;
    for (int64_t stride = 8; stride <= 128; stride *= 2) {
      const float size = 4.0f * float(stride);
      levels.push_back({(d.height + stride - 1) / stride,
                        (d.width + stride - 1) / stride,
                        float(stride),
                        {size, size * 1.26f, size * 1.59f},
                        {0.5f, 1, 2}});
    }
    const std::vector<Box> anchors = make_anchors(levels);
    std::vector<int32_t> matches(anchors.size());
    report(prefix + "match", 0, 16.0 * double(anchors.size()), [&] {
      match({0.5f, 0.4f, true, float(d.width), float(d.height)}, anchors, {boxes.data(), 20}, matches);
    });
  }

  bool wants(const std::string& name) {
    names_.insert(name);
    return std::regex_search(name, filter_);
  }

  void* copied(const void* from, size_t bytes) {
    buffers_.push_back(backend_.allocate(bytes));
    backend_.to_device(buffers_.back()->data(), from, bytes);
    return buffers_.back()->data();
  }
  Tensor tensor(Shape shape, DType dtype) {
    std::vector<char> values(size_t(shape.elements()) * size_of(dtype));
    Tensor tensor{values.data(), shape, dtype};
    const int64_t drawn = std::min(shape.elements(), int64_t{1} << 20);  // the rest repeats them: drawing takes long
    for (int64_t i = 0; i < drawn; ++i) {
      const uint32_t random = philox(uint64_t(i) / 4, 0, 0, 1).word[i % 4];
      if (dtype == DType::u8) tensor.u8()[i] = uint8_t(random);
      if (dtype == DType::s8) tensor.s8()[i] = int8_t(int(random % 255) - 127);
      if (dtype == DType::f32) tensor.f32()[i] = float(int32_t(random)) * 0x1p-30f;                 // from -2 to 2
      if (dtype == DType::bf16) tensor.as<uint16_t>()[i] = uint16_t(0x3F00u | (random & 0x80FFu));  // +-0.5 .. 2
    }
    for (size_t at = size_t(drawn) * size_of(dtype); at < values.size(); at *= 2)
      std::memcpy(&values[at], values.data(), std::min(at, values.size() - at));
    tensor.data = copied(values.data(), values.size());
    return tensor;
  }
  QTensor codes(Shape shape, DType dtype) {
    const Tensor values = tensor(shape, dtype);
    const float scale = 0.01f;
    return {values, static_cast<float*>(copied(&scale, sizeof scale))};
  }

  template <class Call>
  void report(const std::string& name, double operations, double bytes, void (Backend::*operation)(const Call&),
              const std::type_identity_t<Call>& call) {
    report(name, operations, bytes, [&] { (backend_.*operation)(call); });
  }
  void report(const std::string& name, double operations, double bytes, const std::function<void()>& call) {
    if (!wants(name)) return;
    ++found_;
    const double milliseconds = time_of(backend_, backend_.host_memory() ? 1 : 10, call);
    const double rate = (operations > 0 ? operations : bytes) / milliseconds * 1e-6;
    const char* unit = operations > 0 ? "GOP/s" : "GB/s";
    if (json_)
      results_.push_back(
          {{"kernel", name}, {"ms", milliseconds}, {unit, rate}, {"operations", operations}, {"bytes", bytes}});
    else
      fmt::print("{:<44} {:9.3f} ms {:9.1f} {}\n", name, milliseconds, rate, unit);
  }

  Backend& backend_;
  const int threads_;
  int found_ = 0;                // number of kernels that match the filter
  std::set<std::string> names_;  // of all kernels
  std::regex filter_;
  bool json_;
  nlohmann::ordered_json results_ = nlohmann::ordered_json::array();
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

}  // namespace

int bench_kernels(const std::string& filter, bool json, const std::vector<std::string>& overrides) {
  const Config config = parse_config("{}\n", "octet bench kernels", overrides);
  const auto transport = make_self_transport();
  const JobShares shares(*transport, int(config.backend.threads));
  const auto backend = make_backend(config, *make_policy(config), *transport, shares, 0);
  std::unique_ptr<KernelBench> bench;
  try {
    bench = std::make_unique<KernelBench>(*backend, shares.threads(), filter, json);
  } catch (const std::regex_error& error) {
    throw UsageError(__FILE__, __LINE__,
                     say("--filter `", filter, "` is not a valid regular expression: ", error.what()),
                     "use an ECMAScript regular expression, for example resnet20.*forward");
  }
  if (!json) fmt::print("{} {}\n", backend->name(), backend->isa());
  if (backend->host_memory()) bench->run_triad();
  for (const LayerCase& layer : layer_cases) bench->run(layer);
  for (const Detector& detector : detectors) bench->run(detector);
  bench->finish();
  return 0;
}

}  // namespace octet
