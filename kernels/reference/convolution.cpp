// Convolution: one loop nest that visits every multiply-add; the three passes differ in where they add the product.
#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/reference/backend.h"
#include "kernels/reference/element.h"
#include "kernels/reference/products.h"

namespace octet {
namespace {
using namespace reference;

// Calls use(a's elements, b's elements, zero) with typed pointers and a zero of the type that sums are taken in.
template <class Use>
void with_elements(const QTensor& a, const QTensor& b, Use use) {
  if (a.real()) return use(a.values.f32(), b.values.f32(), 0.0);
  if (a.values.dtype == DType::u8) return use(a.values.u8(), b.values.s8(), int64_t{0});
  use(a.values.s8(), b.values.s8(), int64_t{0});
}
template <class Sum, class A, class B>
Sum product(A a, B b) {
  return static_cast<Sum>(a) * static_cast<Sum>(b);
}

// Moments of the f32 values, (pixels, channels).
void measure(const std::vector<float>& values, int64_t channels, Moments moments) {
  const int64_t count = static_cast<int64_t>(values.size()) / channels;
  for (int64_t channel = 0; channel < channels; ++channel) {
    double sum = 0, squares = 0;
    float low = std::numeric_limits<float>::infinity(), high = -low;
    for (int64_t pixel = 0; pixel < count; ++pixel) {
      const float value = values[pixel * channels + channel];
      sum += value;
      low = value < low ? value : low;
      high = value > high ? value : high;
    }
    const double mean = sum / count;
    for (int64_t pixel = 0; pixel < count; ++pixel) {
      const double difference = values[pixel * channels + channel] - mean;
      squares += difference * difference;
    }
    moments.mean[channel] = static_cast<float>(mean);
    moments.variance[channel] = static_cast<float>(squares / count);
    if (moments.min != nullptr) moments.min[channel] = low;
    if (moments.max != nullptr) moments.max[channel] = high;
  }
}
void convolve(const ConvForwardCall& call) {
  std::vector<float> values(call.y.elements());
  with_elements(call.x, call.w, [&](const auto* a, const auto* b, auto zero) {
    using Sum = decltype(zero);
    std::vector<Sum> sums(values.size());
    for_each_product(call.problem, [&](int64_t i, int64_t j, int64_t k) { sums[k] += product<Sum>(a[i], b[j]); });
    const float scale = call.x.real() ? 1.0f : *call.x.scale * *call.w.scale;
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(sums[i]) * scale;
    for (const Moments& moments : call.moments)
      if constexpr (std::is_same_v<Sum, int64_t>)
        measure_exactly(
            sums, call.problem.y.c, [scale](int64_t) { return scale; }, moments);
      else
        measure(values, call.problem.y.c, moments);
  });
  for (int64_t i = 0; i < call.y.elements(); ++i) write(call.y, i, values[i]);
}
}  // namespace

void ReferenceBackend::compute(const ConvForwardCall& call) {
  for (int64_t group = 0; group < call.groups(); ++group) convolve(call.group(group));
}

void ReferenceBackend::compute(const ConvRequantizeCall& call) {
  const auto& [problem, x, w, residual, how, y] = call;
  std::vector<int64_t> sums(static_cast<size_t>(y.elements()));
  const auto add = [&](const auto* a) {
    for_each_product(problem, [&](int64_t i, int64_t j, int64_t k) { sums[k] += product<int64_t>(a[i], w.s8()[j]); });
  };
  x.dtype == DType::u8 ? add(x.u8()) : add(x.s8());
  for (int64_t i = 0; i < y.elements(); ++i) {
    const int64_t channel = i % y.shape.c;
    double value = static_cast<double>(sums[i] + how.bias[channel]) * how.factor[channel];
    if (residual) value += static_cast<double>(read(residual, i)) * how.residual_factor[channel];
    if (is_real(y.dtype))
      write(y, i, static_cast<float>(value));
    else
      write_code(y, i, static_cast<int>(std::nearbyint(std::clamp<double>(value, how.lowest, how.highest))));
  }
}

void ReferenceBackend::compute(const ConvBackwardDataCall& call) {
  const ConvProblem& problem = call.problem;
  std::vector<float> values(problem.x.elements());
  with_elements(call.dy, call.w, [&](const auto* a, const auto* b, auto zero) {
    using Sum = decltype(zero);
    std::vector<Sum> sums(values.size());
    for_each_product(problem, [&](int64_t i, int64_t j, int64_t k) { sums[i] += product<Sum>(a[k], b[j]); });
    const float scale = call.dy.real() ? 1.0f : *call.dy.scale * *call.w.scale;
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(sums[i]) * scale;
  });
  for (int64_t i = 0; i < problem.x.elements(); ++i) write(call.dx, i, values[i]);
}

void ReferenceBackend::compute(const ConvBackwardWeightCall& call) {
  const ConvProblem& problem = call.problem;
  with_elements(call.x, call.dy, [&](const auto* a, const auto* b, auto zero) {
    using Sum = decltype(zero);
    std::vector<Sum> sums(call.dw.tensor.elements());
    for_each_product(problem, [&](int64_t i, int64_t j, int64_t k) { sums[j] += product<Sum>(a[i], b[k]); });
    const float scale = call.x.real() ? 1.0f : *call.x.scale * *call.dy.scale;
    for (int64_t i = 0; i < call.dw.tensor.elements(); ++i) write(call.dw, i, static_cast<float>(sums[i]) * scale);
  });
}

}  // namespace octet
