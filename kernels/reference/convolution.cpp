// Convolution: one loop nest that visits every multiply-add; the three passes differ in where they add the product.
#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/reference/element.h"
#include "kernels/reference/reference_backend.h"

namespace octet {
namespace {
using namespace reference;

void check(const ConvProblem& problem) {
  const Shape x = problem.x, y = problem.y;
  REQUIRE(problem.groups > 0 && x.c % problem.groups == 0 && y.c % problem.groups == 0,
          "choose groups that divide the channels of input and output", "a convolution of ", x.c, " to ", y.c,
          " channels has ", problem.groups, " groups");
  const auto fits = [](int64_t in, int64_t out, int kernel, int stride, int pad, int dilation) {
    const int64_t more = end_padding(in, out, kernel, stride, pad, dilation) - pad;
    return more <= (kernel > 1 ? 1 : 0) && out == output_extent(in + more, kernel, stride, pad, dilation);
  };
  REQUIRE(x.n == y.n && fits(x.h, y.h, problem.kernel_h, problem.stride_h, problem.pad_h, problem.dilation_h) &&
              fits(x.w, y.w, problem.kernel_w, problem.stride_w, problem.pad_w, problem.dilation_w),
          "take the output's extents from output_extent() or same_padding()", "a convolution from ", x.h, "x", x.w,
          " does not give ", y.h, "x", y.w);
}
void check(const char* what, const QTensor& tensor, Shape shape) {
  REQUIRE(tensor.values.shape == shape, "give tensors of the ConvProblem's shapes", "the convolution's ", what,
          " has another shape than the problem");
  REQUIRE(tensor.real() == is_real(tensor.values.dtype), "give a scale to codes, and to codes alone",
          "the convolution's ", what, " is ", name_of(tensor.values.dtype), tensor.real() ? " without" : " with",
          " a scale");
}
void check_operands(const QTensor& a, const QTensor& b) {
  REQUIRE(a.real() == b.real(), "quantize both operands or none", "a convolution of codes with real numbers");
}

// visit(x index, w index, y index) for every product.
template <class Visit>
void for_each_product(const ConvProblem& p, Visit visit) {
  const int64_t inputs = p.x.c / p.groups, outputs = p.y.c / p.groups;
  for (int64_t n = 0; n < p.y.n; ++n) {
    for (int64_t row = 0; row < p.y.h; ++row) {
      for (int64_t column = 0; column < p.y.w; ++column) {
        for (int64_t output = 0; output < p.y.c; ++output) {
          const int64_t y = ((n * p.y.h + row) * p.y.w + column) * p.y.c + output;
          for (int kernel_row = 0; kernel_row < p.kernel_h; ++kernel_row) {
            const int64_t x_row = row * p.stride_h - p.pad_h + kernel_row * p.dilation_h;
            if (x_row < 0 || x_row >= p.x.h) continue;
            for (int kernel_column = 0; kernel_column < p.kernel_w; ++kernel_column) {
              const int64_t x_column = column * p.stride_w - p.pad_w + kernel_column * p.dilation_w;
              if (x_column < 0 || x_column >= p.x.w) continue;
              const int64_t x = ((n * p.x.h + x_row) * p.x.w + x_column) * p.x.c + output / outputs * inputs;
              const int64_t w = ((output * p.kernel_h + kernel_row) * p.kernel_w + kernel_column) * inputs;
              for (int64_t input = 0; input < inputs; ++input) visit(x + input, w + input, y);
            }
          }
        }
      }
    }
  }
}

// Calls use(a's elements, b's elements, zero) with typed pointers and a zero of the type that sums are taken in.
template <class Use>
void with_elements(const QTensor& a, const QTensor& b, Use use) {
  if (!a.real()) {
    REQUIRE(b.values.dtype == DType::s8, "give s8", "a weight or an error of unsigned codes");
    if (a.values.dtype == DType::u8) return use(a.values.u8(), b.values.s8(), int64_t{0});
    return use(a.values.s8(), b.values.s8(), int64_t{0});
  }
  REQUIRE(a.values.dtype == DType::f32 && b.values.dtype == DType::f32, "give f32 operands",
          "a convolution of real numbers that are not f32");
  use(a.values.f32(), b.values.f32(), 0.0);
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
}  // namespace

void ReferenceBackend::conv_forward(const ConvProblem& problem, QTensor x, QTensor w, Tensor y, Moments moments) {
  check(problem);
  check("input", x, problem.x);
  check("weight", w, problem.weight());
  check("output", {y}, problem.y);
  check_operands(x, w);
  std::vector<float> values(y.elements());
  with_elements(x, w, [&](const auto* a, const auto* b, auto zero) {
    using Sum = decltype(zero);
    std::vector<Sum> sums(y.elements());
    for_each_product(problem, [&](int64_t i, int64_t j, int64_t k) { sums[k] += product<Sum>(a[i], b[j]); });
    for (int64_t i = 0; i < y.elements(); ++i) {
      values[i] = static_cast<float>(sums[i]);
      if (!x.real()) values[i] *= *x.scale * *w.scale;
    }
  });
  for (int64_t i = 0; i < y.elements(); ++i) write(y, i, values[i]);
  if (moments) measure(values, problem.y.c, moments);
}

void ReferenceBackend::conv_backward_data(const ConvProblem& problem, QTensor dy, QTensor w, Into dx) {
  check(problem);
  check("output error", dy, problem.y);
  check("weight", w, problem.weight());
  check("input error", {dx.tensor}, problem.x);
  check_operands(dy, w);
  std::vector<float> values(problem.x.elements());
  with_elements(dy, w, [&](const auto* a, const auto* b, auto zero) {
    using Sum = decltype(zero);
    std::vector<Sum> sums(values.size());
    for_each_product(problem, [&](int64_t i, int64_t j, int64_t k) { sums[i] += product<Sum>(a[k], b[j]); });
    const float scale = dy.real() ? 1.0f : *dy.scale * *w.scale;
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(sums[i]) * scale;
  });
  for (int64_t i = 0; i < problem.x.elements(); ++i) write(dx, i, values[i]);
}

void ReferenceBackend::conv_backward_weight(const ConvProblem& problem, QTensor x, QTensor dy, Into dw) {
  check(problem);
  check("input", x, problem.x);
  check("output error", dy, problem.y);
  check("weight gradient", {dw.tensor}, problem.weight());
  check_operands(x, dy);
  with_elements(x, dy, [&](const auto* a, const auto* b, auto zero) {
    using Sum = decltype(zero);
    std::vector<Sum> sums(dw.tensor.elements());
    for_each_product(problem, [&](int64_t i, int64_t j, int64_t k) { sums[j] += product<Sum>(a[i], b[k]); });
    const float scale = x.real() ? 1.0f : *x.scale * *dy.scale;
    for (int64_t i = 0; i < dw.tensor.elements(); ++i) write(dw, i, static_cast<float>(sums[i]) * scale);
  });
}

}  // namespace octet
