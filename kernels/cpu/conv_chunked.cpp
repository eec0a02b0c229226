// Real convolutions whose sums are FP16 numbers (1, 6, 9), taken in chunks of 64 products, as the FP8 policy's paper
// does (Wang et al., NeurIPS 2018, figure 3): a chunk's sum is rounded after each product, then added to the total,
// which is rounded. Products of FP8 operands are exact in FP16. A simulation: right, not fast. Products with padding
// are part of their chunk and add nothing.
#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/cpu/chunked_sums.h"
#include "kernels/cpu/conv.h"
#include "kernels/cpu/parallel.h"
#include "kernels/shared/small_float.h"

namespace octet::cpu {
namespace {

// What chunked_sums takes for one row of sums, collected by its caller.
struct Products {
  std::vector<const float*> rows;
  std::vector<float> factors, sums;
  explicit Products(int64_t count) : sums(static_cast<size_t>(count)) {}
  void clear() {
    rows.clear();
    factors.clear();
  }
  void add(float factor, const float* row) {
    rows.push_back(row);
    factors.push_back(factor);
  }
  const std::vector<float>& take(ChunkedSums chunked_sums) {
    chunked_sums(rows.data(), 0, factors.data(), static_cast<int64_t>(rows.size()), static_cast<int64_t>(sums.size()),
                 sums.data());
    return sums;
  }
};

float read(const Tensor& tensor, int64_t i) {
  return tensor.dtype == DType::bf16 ? from_bf16(tensor.as<uint16_t>()[i]) : tensor.f32()[i];
}
void write(Into into, int64_t i, float value) {
  const float sum = into.add ? read(into.tensor, i) + value : value;
  if (into.tensor.dtype == DType::bf16)
    into.tensor.as<uint16_t>()[i] = to_bf16(sum);
  else
    into.tensor.f32()[i] = sum;
}

class ChunkedConvolution final : public Convolution {
 public:
  ChunkedConvolution(Isa isa, int threads) : chunked_sums_(chunked_sums_of(isa)), threads_(threads) {}
  size_t scratch_bytes() const override { return transposed_.size() * sizeof(float) + rows_.size() * sizeof(float*); }

  void forward(const ConvProblem& p, QTensor x, QTensor w, Tensor y, Moments moments) override {
    const int64_t inputs = p.x.c / p.groups, outputs = p.y.c / p.groups, taps = int64_t{p.kernel_h} * p.kernel_w;
    // (output, tap, input) -> (group, tap, input, output of the group), so that a row of outputs is contiguous.
    transposed_.resize(size_t(p.weight().elements()));
    const float* const weights = w.values.f32();
    parallel_for(threads_, p.y.c, [&](int64_t output) {
      for (int64_t k = 0; k < taps * inputs; ++k)
        transposed_[size_t((output / outputs * taps * inputs + k) * outputs + output % outputs)] =
            weights[output * taps * inputs + k];
    });
    parallel_for(threads_, p.y.pixels(), [&](int64_t pixel) {
      Products row(outputs);
      const int64_t n = pixel / (p.y.h * p.y.w), line = pixel / p.y.w % p.y.h, column = pixel % p.y.w;
      for (int64_t group = 0; group < p.groups; ++group) {
        row.clear();
        for (int64_t tap = 0; tap < taps; ++tap) {
          const float* const from = input_pixel(p, x.values.f32(), n, line, column, tap);
          const float* const values = transposed_.data() + (group * taps + tap) * inputs * outputs;
          for (int64_t i = 0; i < inputs; ++i)
            row.add(from ? from[group * inputs + i] : 0, from ? values + i * outputs : nullptr);
        }
        const std::vector<float>& sums = row.take(chunked_sums_);
        for (int64_t o = 0; o < outputs; ++o) write({y}, pixel * p.y.c + group * outputs + o, sums[size_t(o)]);
      }
    });
    if (moments) measure(y, moments);
  }

  void backward_data(const ConvProblem& p, QTensor dy, QTensor w, Into dx) override {
    const int64_t inputs = p.x.c / p.groups, outputs = p.y.c / p.groups, taps = int64_t{p.kernel_h} * p.kernel_w;
    parallel_for(threads_, p.x.pixels(), [&](int64_t pixel) {
      Products row(inputs);
      const int64_t n = pixel / (p.x.h * p.x.w), line = pixel / p.x.w % p.x.h, column = pixel % p.x.w;
      for (int64_t group = 0; group < p.groups; ++group) {
        row.clear();
        for (int64_t tap = 0; tap < taps; ++tap) {
          const float* const from = output_pixel(p, dy.values.f32(), n, line, column, tap);
          for (int64_t o = group * outputs; o < (group + 1) * outputs; ++o)
            row.add(from ? from[o] : 0, from ? w.values.f32() + (o * taps + tap) * inputs : nullptr);
        }
        const std::vector<float>& sums = row.take(chunked_sums_);
        for (int64_t i = 0; i < inputs; ++i) write(dx, pixel * p.x.c + group * inputs + i, sums[size_t(i)]);
      }
    });
  }

  void backward_weight(const ConvProblem& p, QTensor x, QTensor dy, Into dw) override {
    const int64_t inputs = p.x.c / p.groups, outputs = p.y.c / p.groups, taps = int64_t{p.kernel_h} * p.kernel_w;
    const int64_t pixels = p.y.pixels();
    rows_.resize(size_t(taps * pixels));
    parallel_for(threads_, taps * p.y.n * p.y.h, [&](int64_t at) {
      const int64_t tap = at / (p.y.n * p.y.h), line = at % (p.y.n * p.y.h);
      for (int64_t column = 0; column < p.y.w; ++column)
        rows_[size_t(tap * pixels + line * p.y.w + column)] =
            input_pixel(p, x.values.f32(), line / p.y.h, line % p.y.h, column, tap);
    });
    parallel_for(threads_, p.y.c, [&](int64_t output) {
      std::vector<float> factors(static_cast<size_t>(pixels)), sums(static_cast<size_t>(inputs));
      for (int64_t pixel = 0; pixel < pixels; ++pixel) factors[size_t(pixel)] = dy.values.f32()[pixel * p.y.c + output];
      for (int64_t tap = 0; tap < taps; ++tap) {
        chunked_sums_(rows_.data() + tap * pixels, output / outputs * inputs, factors.data(), pixels, inputs,
                      sums.data());
        for (int64_t i = 0; i < inputs; ++i) write(dw, (output * taps + tap) * inputs + i, sums[size_t(i)]);
      }
    });
  }

 private:
  // The input pixel that meets this tap for an output pixel; null: padding.
  static const float* input_pixel(const ConvProblem& p, const float* x, int64_t n, int64_t row, int64_t column,
                                  int64_t tap) {
    const int64_t h = row * p.stride_h - p.pad_h + tap / p.kernel_w * p.dilation_h;
    const int64_t w = column * p.stride_w - p.pad_w + tap % p.kernel_w * p.dilation_w;
    return h < 0 || w < 0 || h >= p.x.h || w >= p.x.w ? nullptr : x + ((n * p.x.h + h) * p.x.w + w) * p.x.c;
  }
  // The output pixel that an input pixel reached through this tap; null: none.
  static const float* output_pixel(const ConvProblem& p, const float* y, int64_t n, int64_t row, int64_t column,
                                   int64_t tap) {
    const int64_t h = row + p.pad_h - tap / p.kernel_w * p.dilation_h,
                  w = column + p.pad_w - tap % p.kernel_w * p.dilation_w;
    if (h < 0 || w < 0 || h % p.stride_h != 0 || w % p.stride_w != 0) return nullptr;
    const int64_t line = h / p.stride_h, place = w / p.stride_w;
    return line >= p.y.h || place >= p.y.w ? nullptr : y + ((n * p.y.h + line) * p.y.w + place) * p.y.c;
  }

  void measure(const Tensor& y, Moments moments) const {
    const int64_t channels = y.shape.c, pixels = y.shape.pixels();
    parallel_for(threads_, channels, [&](int64_t c) {
      double sum = 0, squares = 0;
      float low = std::numeric_limits<float>::infinity(), high = -low;
      for (int64_t p = 0; p < pixels; ++p) {
        const float value = read(y, p * channels + c);
        sum += double(value);
        low = std::min(low, value);
        high = std::max(high, value);
      }
      const double mean = sum / double(pixels);
      for (int64_t p = 0; p < pixels; ++p) {
        const double difference = double(read(y, p * channels + c)) - mean;
        squares += difference * difference;
      }
      moments.mean[c] = float(mean);
      moments.variance[c] = float(squares / double(pixels));
      if (moments.min != nullptr) moments.min[c] = low;
      if (moments.max != nullptr) moments.max[c] = high;
    });
  }

  ChunkedSums chunked_sums_;
  int threads_;
  std::vector<float> transposed_;
  std::vector<const float*> rows_;  // the weight gradient's, by tap and pixel
};

}  // namespace

std::unique_ptr<Convolution> make_chunked_convolution(Isa isa, int threads) {
  return std::make_unique<ChunkedConvolution>(isa, threads);
}

}  // namespace octet::cpu
