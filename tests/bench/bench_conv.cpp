// Times every convolution of three networks and says how close it comes to the processor's own peak.
//   bench_conv [threads = 2] [isa = best] [filter = ""] [kind = int8 | fixed_order | onednn]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cpu/convolution.h"

namespace octet {
namespace {

struct Layer {
  const char* network;
  int count;  // times the layer occurs
  int64_t batch, height, channels, outputs;
  int kernel, stride, pad, groups;
};
// clang-format off
const Layer layers[] = {
    {"resnet20", 6, 128, 32, 16, 16, 3, 1, 1, 1},   {"resnet20", 1, 128, 32, 16, 32, 3, 2, 1, 1},
    {"resnet20", 5, 128, 16, 32, 32, 3, 1, 1, 1},   {"resnet20", 1, 128, 16, 32, 64, 3, 2, 1, 1},
    {"resnet20", 5, 128, 8, 64, 64, 3, 1, 1, 1},
    {"mobilenet2", 1, 128, 32, 32, 16, 1, 1, 0, 1},  {"mobilenet2", 1, 128, 32, 16, 96, 1, 1, 0, 1},
    {"mobilenet2", 1, 128, 32, 96, 96, 3, 1, 1, 96}, {"mobilenet2", 1, 128, 32, 96, 24, 1, 1, 0, 1},
    {"mobilenet2", 2, 128, 32, 24, 144, 1, 1, 0, 1}, {"mobilenet2", 1, 128, 32, 144, 144, 3, 2, 1, 144},
    {"mobilenet2", 3, 128, 16, 32, 192, 1, 1, 0, 1}, {"mobilenet2", 2, 128, 16, 192, 192, 3, 1, 1, 192},
    {"mobilenet2", 2, 128, 16, 192, 32, 1, 1, 0, 1}, {"mobilenet2", 4, 128, 8, 64, 384, 1, 1, 0, 1},
    {"mobilenet2", 4, 128, 8, 384, 384, 3, 1, 1, 384}, {"mobilenet2", 3, 128, 8, 384, 64, 1, 1, 0, 1},
    {"mobilenet2", 2, 128, 4, 960, 160, 1, 1, 0, 1}, {"mobilenet2", 1, 128, 4, 320, 1280, 1, 1, 0, 1},
    {"resnet50", 1, 16, 224, 3, 64, 7, 2, 3, 1},     {"resnet50", 1, 16, 56, 64, 64, 1, 1, 0, 1},
    {"resnet50", 3, 16, 56, 64, 64, 3, 1, 1, 1},     {"resnet50", 4, 16, 56, 64, 256, 1, 1, 0, 1},
    {"resnet50", 2, 16, 56, 256, 64, 1, 1, 0, 1},    {"resnet50", 1, 16, 56, 128, 128, 3, 2, 1, 1},
    {"resnet50", 1, 16, 56, 256, 512, 1, 2, 0, 1},   {"resnet50", 3, 16, 28, 128, 128, 3, 1, 1, 1},
    {"resnet50", 4, 16, 28, 128, 512, 1, 1, 0, 1},   {"resnet50", 3, 16, 28, 512, 128, 1, 1, 0, 1},
    {"resnet50", 5, 16, 14, 256, 256, 3, 1, 1, 1},   {"resnet50", 6, 16, 14, 256, 1024, 1, 1, 0, 1},
    {"resnet50", 5, 16, 14, 1024, 256, 1, 1, 0, 1},  {"resnet50", 2, 16, 7, 512, 512, 3, 1, 1, 1},
    {"resnet50", 3, 16, 7, 512, 2048, 1, 1, 0, 1},   {"resnet50", 2, 16, 7, 2048, 512, 1, 1, 0, 1},
    {"first", 1, 128, 32, 3, 16, 3, 1, 1, 1},        {"last", 1, 128, 1, 64, 10, 1, 1, 0, 1},
    {"last", 1, 16, 1, 2048, 1000, 1, 1, 0, 1},
};
// clang-format on

ConvProblem problem_of(const Layer& layer) {
  ConvProblem p;
  p.x = {layer.batch, layer.height, layer.height, layer.channels};
  const int64_t out = output_extent(layer.height, layer.kernel, layer.stride, layer.pad);
  p.y = {layer.batch, out, out, layer.outputs};
  p.kernel_h = p.kernel_w = layer.kernel;
  p.stride_h = p.stride_w = layer.stride;
  p.pad_h = p.pad_w = layer.pad;
  p.groups = layer.groups;
  return p;
}

template <class Run>
double milliseconds(const Run& run) {
  run();
  double best = 1e9, spent = 0;
  for (int i = 0; i < 200 && (i < 5 || spent < 300); ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    best = std::min(best, ms);
    spent += ms;
  }
  return best;
}

int run(int threads, Isa isa, const std::string& filter, const std::string& kind) {
  const bool real = kind != "int8";
  auto convolution = kind == "onednn"        ? cpu::make_onednn_convolution(threads)
                     : kind == "fixed_order" ? cpu::make_fixed_order_convolution(isa, threads)
                                             : cpu::make_int8_convolution(isa, threads);
  // Peak by the kernel itself on operands in the first-level cache would hide the memory; take the processor's, in
  // GOPS.
  const double peak = std::atof(std::getenv("OCTET_PEAK_GOPS") ? std::getenv("OCTET_PEAK_GOPS") : "472") * threads;
  std::string network;
  double totals[4] = {};
  const auto report = [&] {
    if (totals[3] > 0)
      std::printf("%-11s total: forward %.2f, backward data %.2f, backward weight %.2f ms; %.1f %% of peak\n\n",
                  network.c_str(), totals[0], totals[1], totals[2],
                  totals[3] / (totals[0] + totals[1] + totals[2]) * 1e-6 / peak * 100);
    std::fill(totals, totals + 4, 0.0);
  };
  for (const Layer& layer : layers) {
    if (std::string(layer.network).find(filter) == std::string::npos) continue;
    if (layer.network != network) report();
    network = layer.network;
    const ConvProblem p = problem_of(layer);
    const size_t unit = real ? 4 : 1;
    std::vector<char> x(static_cast<size_t>(p.x.elements()) * unit),
        w(static_cast<size_t>(p.weight().elements()) * unit), dy(static_cast<size_t>(p.y.elements()) * unit);
    if (!real)
      for (auto* codes : {&x, &w, &dy})
        for (size_t i = 0; i < codes->size(); ++i) (*codes)[i] = static_cast<char>(i * 2654435761u >> 13);
    std::vector<uint16_t> y(static_cast<size_t>(p.y.elements()) * 2), dx(static_cast<size_t>(p.x.elements()) * 2);
    std::vector<float> dw(static_cast<size_t>(p.weight().elements())), m(static_cast<size_t>(4 * p.y.c));
    const Moments moments{&m[0], &m[p.y.c], &m[2 * p.y.c], &m[3 * p.y.c]};
    float scale = 0.01f;
    const DType type = real ? DType::f32 : DType::s8, out = real ? DType::f32 : DType::bf16;
    float* s = real ? nullptr : &scale;
    const QTensor X{{x.data(), p.x, type}, s}, W{{w.data(), p.weight(), type}, s}, D{{dy.data(), p.y, type}, s};
    const double ms[3] = {milliseconds([&] {
                            convolution->forward({p, X, W, {y.data(), p.y, out}, {&moments, 1}});
                          }),
                          milliseconds([&] {
                            convolution->backward_data({p, D, W, {{dx.data(), p.x, out}}});
                          }),
                          milliseconds([&] {
                            convolution->backward_weight({p, X, D, {{dw.data(), p.weight()}}});
                          })};
    const double ops = 2.0 * static_cast<double>(p.products());
    std::printf("%-11s %dx %4ldx%-3ld %4ld->%-4ld k%d s%d g%-3d", layer.network, layer.count, layer.batch, layer.height,
                layer.channels, layer.outputs, layer.kernel, layer.stride, layer.groups);
    for (int pass = 0; pass < 3; ++pass) {
      std::printf(" | %8.3f ms %6.1f GOPS %5.1f %%", ms[pass], ops / ms[pass] * 1e-6,
                  ops / ms[pass] * 1e-6 / peak * 100);
      totals[pass] += layer.count * ms[pass];
    }
    totals[3] += 3 * layer.count * ops;
    std::printf("\n");
    std::fflush(stdout);
  }
  report();
  return 0;
}

}  // namespace
}  // namespace octet

int main(int count, char** arguments) {
  const int threads = count > 1 ? std::atoi(arguments[1]) : 2;
  const octet::Isa isa =
      count > 2 && std::strcmp(arguments[2], "best") != 0 ? octet::isa_from_name(arguments[2]) : octet::best_isa();
  return octet::run(threads, isa, count > 3 ? arguments[3] : "", count > 4 ? arguments[4] : "int8");
}
