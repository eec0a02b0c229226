// Times the elementwise passes of the CPU backend, by default at the size of ResNet-20's first stage, 128 x 32 x 32
// x 16. Usage: bench_passes [instruction set] [threads] [images height width channels]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "kernels/backend.h"
#include "kernels/shared/encode.h"

namespace octet {
namespace {

struct Bench {
  std::unique_ptr<Backend> backend;
  std::vector<std::unique_ptr<Buffer>> buffers;
  Shape shape;

  Tensor tensor(DType type, Shape of) {
    Tensor result{nullptr, of, type};
    buffers.push_back(backend->allocate(result.bytes()));
    result.data = buffers.back()->data();
    uint32_t state = 12345;
    for (int64_t i = 0; i < result.elements(); ++i) {
      state = state * 1664525u + 1013904223u;
      const float x = static_cast<float>(static_cast<int32_t>(state)) * (1.0f / 2147483648.0f);
      if (type == DType::f32) result.f32()[i] = x;
      if (type == DType::bf16) result.as<uint16_t>()[i] = to_bf16(x);
      if (type == DType::s8) result.s8()[i] = static_cast<int8_t>(state >> 24);
    }
    return result;
  }
  Tensor tensor(DType type) { return tensor(type, shape); }
  QTensor codes() { return {tensor(DType::s8), tensor(DType::f32, {1, 1, 1, 1}).f32()}; }

  // Prints the median of some runs. bytes: read and written per element.
  void time(const char* name, int bytes, const std::function<void()>& pass) const {
    std::vector<double> seconds;
    for (int run = 0; run < 25; ++run) {
      const auto start = std::chrono::steady_clock::now();
      pass();
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[seconds.size() / 2], elements = static_cast<double>(shape.elements());
    std::printf("%-58s %8.3f ms %7.1f GB/s %7.2f Gelem/s\n", name, median * 1e3, elements * bytes / median * 1e-9,
                elements / median * 1e-9);
  }
};

void run(const CpuOptions& options, Shape shape) {
  Bench bench{make_cpu_backend(options), {}, shape};
  Backend& cpu = *bench.backend;
  std::printf("%s, %d threads, %ld x %ld x %ld x %ld\n", cpu.isa().c_str(), options.threads, shape.n, shape.h, shape.w,
              shape.c);
  const Shape channels{1, 1, 1, shape.c};
  const Tensor x = bench.tensor(DType::bf16), dy = bench.tensor(DType::bf16), real = bench.tensor(DType::f32);
  const Tensor d_residual = bench.tensor(DType::bf16);
  const QTensor residual = bench.codes(), y = bench.codes(), error = bench.codes();
  const auto vector = [&](float value) {
    Tensor result = bench.tensor(DType::f32, channels);
    std::fill_n(result.f32(), shape.c, value);
    return result.f32();
  };
  const Moments moments{vector(0.01f), vector(0.3f), vector(-1), vector(1)};
  const AffineParameters parameters{vector(1.1f), vector(0.1f)};
  const Into d_gamma{{vector(0), channels, DType::f32}}, d_beta{{vector(0), channels, DType::f32}};
  const float clip = 0.5f;
  Encoding nearest{DType::s8}, held{DType::s8};
  held.rounding = Rounding::stochastic;
  held.range = Range::held;
  held.held = &clip;
  Encoding stochastic = held;
  stochastic.range = Range::absmax;
  const RngKey key{1, 2, 3, 0};
  AffineProblem problem;
  problem.shape = shape;
  problem.activation = Activation::relu;
  uint64_t saturated = 0;
  std::vector<uint32_t> histogram(histogram_bins);

  bench.time("quantize f32 nearest absmax", 9, [&] { cpu.quantize({real, nearest, key, y, {}}); });
  bench.time("quantize f32 stochastic held", 5, [&] { cpu.quantize({real, held, key, y, {}}); });
  bench.time("quantize bf16 stochastic held", 3, [&] { cpu.quantize({x, held, key, y, {}}); });
  bench.time("affine_forward bf16 -> s8", 3, [&] {
    cpu.affine_forward({problem, x, moments, parameters, {}, nearest, key, y, {}});
  });
  const Convolved coded{x, bench.tensor(DType::s8), vector(0), vector(0)};
  bench.time("affine_forward bf16 -> s8, s8 kept", 4, [&] {
    cpu.affine_forward({problem, coded, moments, parameters, {}, nearest, key, y, {}});
  });
  bench.time("affine_forward bf16, residual s8 -> s8 (held)", 4, [&] {
    Encoding encoding = held;
    encoding.rounding = Rounding::nearest;
    cpu.affine_forward({problem, x, moments, parameters, residual, encoding, key, y, {}});
  });
  bench.time("affine_forward bf16, residual s8 -> s8 (absmax)", 7, [&] {
    cpu.affine_forward({problem, x, moments, parameters, residual, nearest, key, y, {}});
  });
  bench.time("affine_backward bf16, bf16 -> s8", 9, [&] {
    cpu.affine_backward(
        {problem, x, moments, parameters, {}, dy, d_gamma, d_beta, {}, held, key, error, {nullptr, &saturated}});
  });
  bench.time("affine_backward s8, bf16 -> s8", 7, [&] {
    cpu.affine_backward(
        {problem, coded, moments, parameters, {}, dy, d_gamma, d_beta, {}, held, key, error, {nullptr, &saturated}});
  });
  bench.time("affine_backward bf16, bf16, residual s8 -> s8, d_residual bf16", 13, [&] {
    cpu.affine_backward({problem,
                         x,
                         moments,
                         parameters,
                         residual,
                         dy,
                         d_gamma,
                         d_beta,
                         {d_residual},
                         held,
                         key,
                         error,
                         {nullptr, &saturated}});
  });
  bench.time("affine_backward bf16, bf16 -> s8 (absmax)", 13, [&] {
    cpu.affine_backward(
        {problem, x, moments, parameters, {}, dy, d_gamma, d_beta, {}, stochastic, key, error, {nullptr, &saturated}});
  });
  bench.time("affine_backward bf16, bf16 -> s8 with a histogram", 9, [&] {
    cpu.affine_backward({problem,
                         x,
                         moments,
                         parameters,
                         {},
                         dy,
                         d_gamma,
                         d_beta,
                         {},
                         held,
                         key,
                         error,
                         {histogram.data(), &saturated}});
  });
  bench.time("affine_backward bf16, bf16 -> s8, a quarter counted", 9, [&] {
    cpu.affine_backward({problem,
                         x,
                         moments,
                         parameters,
                         {},
                         dy,
                         d_gamma,
                         d_beta,
                         {},
                         held,
                         key,
                         error,
                         {histogram.data(), &saturated, 4}});
  });
  bench.time("all_finite f32", 4, [&] { cpu.all_finite(real); });
  const Tensor gradient = bench.tensor(DType::f32), velocity = bench.tensor(DType::f32);
  bench.time("sgd_update", 20, [&] { cpu.sgd_update({1e-3f, 0.9f, 1e-4f, false}, real, gradient, velocity, nullptr); });
}

}  // namespace
}  // namespace octet

int main(int argc, char** argv) {
  octet::CpuOptions options;
  options.isa = argc > 1 ? octet::isa_from_name(argv[1]) : octet::best_isa();
  options.threads = argc > 2 ? std::atoi(argv[2]) : 2;
  octet::Shape shape{128, 32, 32, 16};
  if (argc == 7) shape = {std::atoll(argv[3]), std::atoll(argv[4]), std::atoll(argv[5]), std::atoll(argv[6])};
  octet::run(options, shape);
}
