// Real convolutions whose sums are FP16 numbers (1, 6, 9), taken in chunks of 64 products, as the FP8 policy's paper
// does (Wang et al., NeurIPS 2018, figure 3). Products of FP8 operands are exact in FP16. A simulation. Products with
// padding take their place in a chunk and add nothing: one of their factors is 0.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/chunked_sums.h"
#include "kernels/cpu/convolution.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/parallel.h"
#include "kernels/shared/small_float.h"

namespace octet::cpu {
namespace {

constexpr int64_t height = ChunkedSums::height;

float read(const Tensor& tensor, int64_t i) {
  return tensor.dtype == DType::bf16 ? from_bf16(tensor.as<uint16_t>()[i]) : tensor.f32()[i];
}
void put(Into into, int64_t i, float value) {
  const float sum = into.add ? read(into.tensor, i) + value : value;
  if (into.tensor.dtype == DType::bf16)
    into.tensor.as<uint16_t>()[i] = to_bf16(sum);
  else
    into.tensor.f32()[i] = sum;
}

class ChunkedConvolution final : public Convolution {
 public:
  ChunkedConvolution(Isa isa, Threads threads) : sums_of_(*kernels_of(isa).chunked), threads_(threads) {}
  size_t scratch_bytes() const override {
    return (transposed_.size() + zeros_.size()) * sizeof(float) + rows_.size() * sizeof(float*) + moments_.bytes();
  }

  void forward(const ConvForwardCall& call) override {
    for (int64_t group = 0; group < call.groups(); ++group) convolve(call.group(group));
  }

  void backward_data(const ConvBackwardDataCall& call) override {
    const ConvProblem& p = call.problem;
    const Sizes size(p);
    const float *const from = call.dy.values.f32(), *const weights = call.w.values.f32();
    const auto pixel_of = [=, &p](int64_t pixel, int64_t tap) { return output_pixel(p, from, pixel, tap); };
    easy_ = easy(call.dy.values, call.w.values, size.taps * size.outputs);
    if (size.depthwise) {
      pair_pixels(size, weights, p.x.pixels(), p.x.c, call.dx, pixel_of);
    } else {
      point_rows(p.y.c * size.taps, [&](int64_t row) {  // (group, tap, output)
        const int64_t tap = row / size.outputs % size.taps;
        const int64_t output = row / size.outputs / size.taps * size.outputs + row % size.outputs;
        return weights + (output * size.taps + tap) * size.inputs;
      });
      sum_pixels(size, p.groups, p.x.pixels(), size.outputs, size.inputs, call.dx, pixel_of);
    }
  }

  void backward_weight(const ConvBackwardWeightCall& call) override {
    const ConvProblem& p = call.problem;
    const Into& dw = call.dw;
    const Sizes size(p);
    const int64_t pixels = p.y.pixels();
    const float *const from = call.x.values.f32(), *const grad_output = call.dy.values.f32();
    const auto pixel_of = [=, &p](int64_t pixel, int64_t tap) { return input_pixel(p, from, pixel, tap); };
    easy_ = easy(call.x.values, call.dy.values, pixels);
    if (size.depthwise) {
      zeros_.resize(size_t(p.x.c));
      point_rows(size.taps * pixels, [&](int64_t row) {
        const float* const pixel = pixel_of(row % pixels, row / pixels);
        return pixel ? pixel : zeros_.data();
      });
      std::vector<const float*> pairs(static_cast<size_t>(pixels));
      for (int64_t pixel = 0; pixel < pixels; ++pixel) pairs[size_t(pixel)] = grad_output + pixel * p.y.c;
      const int64_t part = 64, parts = (p.x.c + part - 1) / part;
      parallel_for(threads_, size.taps * parts, [&](int64_t at) {
        const int64_t tap = at / parts, first = at % parts * part, count = std::min(part, p.x.c - first);
        float sums[part];
        sums_of_.of_pairs[easy_](rows_.data() + tap * pixels, pairs.data(), first, pixels, count, sums);
        for (int64_t c = 0; c < count; ++c) put(dw, (first + c) * size.taps + tap, sums[c]);
      });
      return;
    }
    // An item takes a few outputs of a group and goes along the pixels by panels that stay in the cache: what all taps
    // read for a pixel is a row.
    constexpr int64_t most = 4 * height;
    const int64_t parts = (size.outputs + most - 1) / most, width = size.taps * size.inputs;
    const int64_t panel = std::clamp<int64_t>(131072 / width / 64, 1, 16) * 64;  // whole chunks
    parallel_for(threads_, p.groups * parts, [&](int64_t item) {
      const int64_t group = item / parts, first = item % parts * most, count = std::min(most, size.outputs - first);
      std::vector<float> values(size_t(panel * width)), factors(size_t(most * panel)), sums(size_t(most * width));
      std::vector<const float*> rows(static_cast<size_t>(panel));
      for (int64_t k = 0; k < panel; ++k) rows[size_t(k)] = values.data() + k * width;
      for (int64_t begin = 0; begin < pixels; begin += panel) {
        const int64_t products = std::min(panel, pixels - begin);
        gather(size, begin, products, group * size.inputs, size.inputs, pixel_of, values.data());
        for (int64_t k = 0; k < products; ++k)
          for (int64_t o = 0; o < count; ++o)
            factors[size_t(o * products + k)] = grad_output[(begin + k) * p.y.c + group * size.outputs + first + o];
        for (int64_t o = 0; o < count; o += height)
          sums_of_.of_rows[easy_](rows.data(), factors.data() + o * products, products, width, sums.data() + o * width);
      }
      for (int64_t at = 0; at < count * width; ++at)
        put(dw, (group * size.outputs + first) * width + at, sums[size_t(at)]);
    });
  }

 private:
  void convolve(const ConvForwardCall& call) {
    const ConvProblem& p = call.problem;
    REQUIRE(call.y.dtype == DType::f32 || call.moments.empty(), "store f32",
            "sums in chunks have moments in f32 alone");
    const Sizes size(p);
    const float *const from = call.x.values.f32(), *const weights = call.w.values.f32();
    const auto pixel_of = [=, &p](int64_t pixel, int64_t tap) { return input_pixel(p, from, pixel, tap); };
    easy_ = easy(call.x.values, call.w.values, size.taps * size.inputs);
    if (size.depthwise) {
      pair_pixels(size, weights, p.y.pixels(), p.x.c, {call.y}, pixel_of);
    } else {
      // (output, tap, input) -> (group, tap, input, output of the group), so that a row of outputs is contiguous.
      const int64_t products = size.taps * size.inputs;
      transposed_.resize(size_t(p.weight().elements()));
      parallel_for(threads_, p.y.c, [&](int64_t o) {
        for (int64_t k = 0; k < products; ++k)
          transposed_[size_t((o / size.outputs * products + k) * size.outputs + o % size.outputs)] =
              weights[o * products + k];
      });
      point_rows(p.groups * products, [&](int64_t row) { return transposed_.data() + row * size.outputs; });
      sum_pixels(size, p.groups, p.y.pixels(), size.inputs, size.outputs, {call.y}, pixel_of);
    }
    for (const Moments& moments : call.moments)
      measure_moments(threads_, call.y.f32(), call.y.shape, moments, moments_);
  }

  // Whether products of a and b are exact in f32 (significands of 12 bits), and sums of `products` of them stay within
  // FP16.
  // Rounding makes a sum larger by 2^-10 of it at most: 64 times in a chunk (1.07), and once for each chunk (2 for 512
  // of them).
  bool easy(const Tensor& a, const Tensor& b, int64_t products) const {
    uint32_t used = 0;
    double product = 1;
    for (const Tensor& operand : {a, b}) {
      const float* const values = operand.f32();
      const int64_t count = operand.elements();
      uint32_t bits = 0;
      float largest = 0;
#pragma omp parallel for simd num_threads(threads_.running()) reduction(| : bits) reduction(max : largest)
      for (int64_t i = 0; i < count; ++i) {
        bits |= bits_of(values[i]);
        largest = std::max(largest, std::abs(values[i]));  // passes NaN over, which stays NaN either way
      }
      used |= bits, product *= static_cast<double>(largest);
    }
    const int chunks = static_cast<int>(products / 64 + 1);
    return (used & 0xFFFu) == 0 &&
           std::ldexp(1.07 * static_cast<double>(products) * product, chunks / 512 + 1) < double{Float16::largest};
  }

  struct Sizes {
    int64_t inputs, outputs, taps;  // channels of one group
    bool depthwise;
    explicit Sizes(const ConvProblem& p)
        : inputs(p.x.c / p.groups),
          outputs(p.y.c / p.groups),
          taps(int64_t{p.kernel_h} * p.kernel_w),
          depthwise(inputs == 1 && outputs == 1 && p.groups > 1) {}
  };

  template <class F>
  void point_rows(int64_t count, const F& row_of) {
    rows_.resize(size_t(count));
    parallel_pieces(threads_, count, 1024, [&](int64_t first, int64_t size) {
      for (int64_t row = first; row < first + size; ++row) rows_[size_t(row)] = row_of(row);
    });
  }

  // What `count` pixels read: `read` channels from `channel` on of each tap's pixel_of(pixel, tap), null for padding.
  template <class F>
  static void gather(const Sizes& size, int64_t first, int64_t count, int64_t channel, int64_t read, const F& pixel_of,
                     float* to) {
    for (int64_t at = 0; at < count * size.taps; ++at, to += read) {
      const float* const from = pixel_of(first + at / size.taps, at % size.taps);
      if (from != nullptr)
        std::copy_n(from + channel, read, to);
      else
        std::fill_n(to, read, 0.0f);
    }
  }

  // Every pixel's sums over what it reads of each group, for which rows_ holds rows of `written` numbers by (group,
  // tap, channel).
  template <class F>
  void sum_pixels(const Sizes& size, int64_t groups, int64_t pixels, int64_t read, int64_t written, Into into,
                  const F& pixel_of) {
    const int64_t products = size.taps * read;
    parallel_pieces(threads_, pixels, height, [&](int64_t first, int64_t count) {
      std::vector<float> factors(size_t(height * products)), sums(size_t(height * written));
      for (int64_t group = 0; group < groups; ++group) {
        gather(size, first, count, group * read, read, pixel_of, factors.data());
        std::fill(sums.begin(), sums.end(), 0.0f);
        sums_of_.of_rows[easy_](rows_.data() + group * products, factors.data(), products, written, sums.data());
        for (int64_t at = 0; at < count; ++at)
          for (int64_t c = 0; c < written; ++c)
            put(into, ((first + at) * groups + group) * written + c, sums[size_t(at * written + c)]);
      }
    });
  }

  // The same of depthwise convolutions, channel by channel; weights: (channel, tap).
  template <class F>
  void pair_pixels(const Sizes& size, const float* weights, int64_t pixels, int64_t channels, Into into,
                   const F& pixel_of) {
    transposed_.resize(size_t(size.taps * channels));
    for (int64_t at = 0; at < size.taps * channels; ++at)
      transposed_[size_t(at)] = weights[at % channels * size.taps + at / channels];
    zeros_.resize(size_t(channels));
    point_rows(size.taps, [&](int64_t tap) { return transposed_.data() + tap * channels; });
    parallel_pieces(threads_, pixels, 16, [&](int64_t first, int64_t count) {
      std::vector<const float*> rows(static_cast<size_t>(size.taps));
      std::vector<float> sums(static_cast<size_t>(channels));
      for (int64_t pixel = first; pixel < first + count; ++pixel) {
        for (int64_t tap = 0; tap < size.taps; ++tap) {
          const float* const from = pixel_of(pixel, tap);
          rows[size_t(tap)] = from ? from : zeros_.data();
        }
        sums_of_.of_pairs[easy_](rows.data(), rows_.data(), 0, size.taps, channels, sums.data());
        for (int64_t c = 0; c < channels; ++c) put(into, pixel * channels + c, sums[size_t(c)]);
      }
    });
  }

  // The input pixel that meets this tap for an output pixel; null: padding.
  static const float* input_pixel(const ConvProblem& p, const float* x, int64_t pixel, int64_t tap) {
    const int64_t n = pixel / (p.y.h * p.y.w), row = pixel / p.y.w % p.y.h, column = pixel % p.y.w;
    const int64_t h = row * p.stride_h - p.pad_h + tap / p.kernel_w * p.dilation_h;
    const int64_t w = column * p.stride_w - p.pad_w + tap % p.kernel_w * p.dilation_w;
    return h < 0 || w < 0 || h >= p.x.h || w >= p.x.w ? nullptr : x + ((n * p.x.h + h) * p.x.w + w) * p.x.c;
  }
  // The output pixel that an input pixel reached through this tap; null: none.
  static const float* output_pixel(const ConvProblem& p, const float* y, int64_t pixel, int64_t tap) {
    const int64_t n = pixel / (p.x.h * p.x.w), row = pixel / p.x.w % p.x.h, column = pixel % p.x.w;
    const int64_t h = row + p.pad_h - tap / p.kernel_w * p.dilation_h,
                  w = column + p.pad_w - tap % p.kernel_w * p.dilation_w;
    if (h < 0 || w < 0 || h % p.stride_h != 0 || w % p.stride_w != 0) return nullptr;
    const int64_t line = h / p.stride_h, place = w / p.stride_w;
    return line >= p.y.h || place >= p.y.w ? nullptr : y + ((n * p.y.h + line) * p.y.w + place) * p.y.c;
  }

  const ChunkedSums& sums_of_;
  Threads threads_;
  bool easy_ = false;  // of the current call
  std::vector<float> transposed_, zeros_;
  std::vector<const float*> rows_;
  Scratch moments_;
};

}  // namespace

std::unique_ptr<Convolution> make_chunked_convolution(Isa isa, Threads threads) {
  return std::make_unique<ChunkedConvolution>(isa, threads);
}

}  // namespace octet::cpu
