// The convolutions that every backend is compared on, and tensors with random contents.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/reference/element.h"
#include "kernels/shared/encode.h"
#include "tests/memory/guarded.h"

namespace octet::test {

// Names what is computed while it lives, in messages of failed comparisons and of guarded memory.
class NamedCase {
 public:
  explicit NamedCase(const std::string& name, std::source_location where = std::source_location::current())
      : trace_(where.file_name(), static_cast<int>(where.line()), name), scope_(name) {
    name_tests([] {
      const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
      return test == nullptr ? std::string("none") : std::string(test->test_suite_name()) + "." + test->name();
    });
  }

 private:
  testing::ScopedTrace trace_;
  Scope scope_;
};

// Guarded memory of exactly the tensor's size. Zeroed. It is aligned as an element alone: parts of a tensor are
// operands too, and tighter than the 64 bytes of a Buffer is what shows a read of the first byte beyond.
class OwnedTensor {
 public:
  OwnedTensor() = default;
  explicit OwnedTensor(Shape shape, DType dtype = DType::f32) : view_{nullptr, shape, dtype} {
    memory_ = std::make_shared<GuardedMemory>(view_.bytes(), size_of(dtype), 0);
    view_.data = memory_->data();
  }
  operator Tensor() const { return view_; }
  Tensor view() const { return view_; }
  float* f32() const { return view_.f32(); }
  int8_t* s8() const { return view_.s8(); }
  int64_t elements() const { return view_.elements(); }
  // Element i as float: a real number, or a code.
  float operator[](int64_t i) const { return reference::read(view_, i); }

 private:
  std::shared_ptr<GuardedMemory> memory_;
  Tensor view_;
};

// Codes with a scale, or real numbers without one.
class OwnedQTensor {
 public:
  OwnedQTensor() = default;
  explicit OwnedQTensor(OwnedTensor values) : values_(std::move(values)) {
    if (!is_real(values_.view().dtype)) scale_ = OwnedTensor({1, 1, 1, 1});
  }
  operator QTensor() const { return view(); }
  QTensor view() const { return {values_.view(), scale()}; }
  float* scale() const { return scale_.view() ? scale_.f32() : nullptr; }
  int8_t* s8() const { return values_.s8(); }
  float* f32() const { return values_.f32(); }
  int64_t elements() const { return values_.elements(); }
  const OwnedTensor& values() const { return values_; }

 private:
  OwnedTensor values_, scale_;
};

// A uniform number in [-1, 1), a function of seed and element.
inline float random_number(uint32_t seed, int64_t element) {
  const uint32_t word = philox(static_cast<uint64_t>(element), 0, seed, 0x0C7E7).word[0];
  return static_cast<float>(static_cast<int32_t>(word) >> 8) * (1.0f / 8388608.0f);
}
inline OwnedTensor random_real(Shape shape, uint32_t seed, float magnitude = 1, DType dtype = DType::f32) {
  OwnedTensor result(shape, dtype);
  for (int64_t i = 0; i < result.elements(); ++i) {
    const float x = random_number(seed, i) * magnitude;
    if (dtype == DType::bf16) {
      result.view().as<uint16_t>()[i] = to_bf16(x);
    } else {
      result.f32()[i] = x;
    }
  }
  return result;
}
inline OwnedQTensor random_real_operand(Shape shape, uint32_t seed, float magnitude = 1) {
  return OwnedQTensor(random_real(shape, seed, magnitude));
}
// Every code from -qmax to qmax may come; one element in 16 is an extreme one. Scales are no powers of two.
inline OwnedQTensor random_codes(Shape shape, uint32_t seed, int qmax = 127) {
  OwnedQTensor result(OwnedTensor(shape, DType::s8));
  for (int64_t i = 0; i < result.elements(); ++i) {
    const Random128 random = philox(static_cast<uint64_t>(i), 1, seed, 0x0C7E7);
    const int code = static_cast<int>(random.word[0] % static_cast<uint32_t>(2 * qmax + 1)) - qmax;
    result.s8()[i] = static_cast<int8_t>(random.word[1] % 16 != 0 ? code : random.word[2] % 2 ? qmax : -qmax);
  }
  *result.scale() = 0.01f * (1.5f + random_number(seed + 1, 0));
  return result;
}
// The same of activations that are never negative: every code from 0 to 255 may come, the extreme ones often.
inline OwnedQTensor random_unsigned_codes(Shape shape, uint32_t seed) {
  const OwnedQTensor bytes = random_codes(shape, seed);
  OwnedQTensor result(OwnedTensor(shape, DType::u8));
  for (int64_t i = 0; i < result.elements(); ++i)
    result.s8()[i] = static_cast<int8_t>(bytes.s8()[i] == 127 ? 255 : bytes.s8()[i] == -127 ? 0 : bytes.s8()[i]);
  result.scale()[0] = bytes.scale()[0];
  return result;
}
// Four arrays of (channels) that live as long as this object.
struct OwnedMoments {
  OwnedTensor mean, variance, min, max;
  explicit OwnedMoments(int64_t channels)
      : mean({1, 1, 1, channels}), variance({1, 1, 1, channels}), min({1, 1, 1, channels}), max({1, 1, 1, channels}) {}
  operator Moments() const { return {mean.f32(), variance.f32(), min.f32(), max.f32()}; }
};
// The statistics of a norm's input, between -1 and 1, and the norm's parameters.
struct NormOperands {
  OwnedMoments moments;
  OwnedTensor gamma, beta;
  explicit NormOperands(int64_t channels)
      : moments(channels), gamma(random_real({1, 1, 1, channels}, 21)), beta(random_real({1, 1, 1, channels}, 22)) {
    for (int64_t c = 0; c < channels; ++c) {
      moments.mean.f32()[c] = 0.1f * random_number(23, c);
      moments.variance.f32()[c] = 0.5f + 0.2f * random_number(24, c);
      moments.min.f32()[c] = -1;
      moments.max.f32()[c] = 1;
    }
  }
  AffineParameters parameters() const { return {gamma.f32(), beta.f32()}; }
};

// Scales and offsets of channels kept as codes. One channel in seven is constant.
inline OwnedTensor random_units(int64_t channels) {
  OwnedTensor units = random_real({1, 1, 2, channels}, 11);
  for (int64_t c = 0; c < channels; ++c) units.f32()[c] = c % 7 == 6 ? 0 : 0.011f + 0.01f * units.f32()[c];
  return units;
}
// A convolution's output: real values between -1 and 1 in every channel, and room for codes of them if asked for.
struct OwnedConvolved {
  OwnedTensor real, codes, units;
  OwnedConvolved(Shape shape, uint32_t seed, DType dtype) : real(random_real(shape, seed, 1, dtype)) {}
  OwnedConvolved& with_codes() {
    const Shape shape = real.view().shape;
    codes = OwnedTensor(shape, DType::s8), units = OwnedTensor({1, 1, 2, shape.c});
    return *this;
  }
  operator Convolved() const {
    if (!codes.view()) return real;
    return {real, codes, units.f32(), units.f32() + real.view().shape.c};
  }
};

struct ConvCase {
  std::string name;
  ConvProblem problem;
};

// Fills in the output's shape and describes the problem for failure messages.
inline ConvCase conv_case(ConvProblem p, int64_t outputs) {
  p.y = {p.x.n, output_extent(p.x.h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h),
         output_extent(p.x.w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w), outputs};
  return {say(p.x.n, "x", p.x.h, "x", p.x.w, "x", p.x.c, " to ", outputs, " kernel ", p.kernel_h, "x", p.kernel_w,
              " stride ", p.stride_h, "x", p.stride_w, " pad ", p.pad_h, "x", p.pad_w, " dilation ", p.dilation_h, "x",
              p.dilation_w, " groups ", p.groups),
          p};
}
inline ConvCase square_case(Shape x, int64_t outputs, int kernel, int stride, int pad, int dilation = 1,
                            int groups = 1) {
  ConvProblem p;
  p.x = x;
  p.kernel_h = p.kernel_w = kernel;
  p.stride_h = p.stride_w = stride;
  p.pad_h = p.pad_w = pad;
  p.dilation_h = p.dilation_w = dilation;
  p.groups = groups;
  return conv_case(p, outputs);
}

// "SAME" padding: of an odd number of zeros, one more is behind the image.
inline ConvCase same_case(Shape x, int64_t outputs, int kernel, int stride, int groups = 1) {
  ConvCase c = square_case(x, outputs, kernel, stride, 0, 1, groups);
  const Padded rows = same_padding(x.h, kernel, stride), columns = same_padding(x.w, kernel, stride);
  c.problem.y.h = rows.out, c.problem.y.w = columns.out;
  c.problem.pad_h = rows.pad, c.problem.pad_w = columns.pad;
  c.name += say(" with SAME padding");
  return c;
}

// Small enough for the plain loops: about 28 million multiply-adds in all.
inline std::vector<ConvCase> conv_cases() {
  std::vector<ConvCase> cases;
  const std::vector<int64_t> counts = {1, 3, 15, 16, 17, 24, 31, 32, 33, 64};  // a tile, one less, one more
  for (const int64_t inputs : counts) {
    for (const int64_t outputs : counts) {
      cases.push_back(square_case({1, 5, 7, inputs}, outputs, 1, 1, 0));
      if ((inputs + outputs) % 3 == 0) cases.push_back(square_case({2, 5, 3, inputs}, outputs, 3, 1, 1));
    }
  }
  for (const int kernel : {1, 3, 5, 7}) {
    for (const int stride : {1, 2, 3}) {
      for (const int pad : {0, 1, kernel / 2}) {
        if (pad > kernel / 2) continue;
        cases.push_back(square_case({2, 11, 13, 5}, 19, kernel, stride, pad));
      }
    }
  }
  cases.push_back(square_case({2, 17, 19, 3}, 24, 7, 2, 3));      // the first layer of a ResNet
  cases.push_back(square_case({1, 8, 8, 64}, 65, 3, 1, 1));       // whole tiles and one channel
  cases.push_back(square_case({1, 4, 4, 130}, 48, 3, 2, 1));      // deeper than two vectors
  cases.push_back(square_case({3, 2, 2, 16}, 16, 3, 1, 1));       // the kernel is larger than the image
  cases.push_back(square_case({1, 1, 1, 7}, 5, 3, 1, 1));         // nearly all padding
  cases.push_back(square_case({1, 5, 5, 4}, 6, 1, 1, 2));         // whole output pixels outside of the image
  cases.push_back(square_case({5, 1, 1, 7}, 5, 1, 1, 1));         // the same of single pixels
  cases.push_back(square_case({1, 7, 7, 3}, 5, 1, 3, 0));         // input pixels that no output reads
  cases.push_back(square_case({5, 1, 1, 70}, 33, 1, 1, 0));       // fully connected
  cases.push_back(square_case({4, 3, 3, 17}, 20, 3, 2, 0));       // the same over whole images
  cases.push_back(square_case({600, 2, 2, 24}, 40, 2, 1, 0));     // of more images than an item of a weight gradient
  cases.push_back(square_case({2, 13, 11, 17}, 16, 3, 1, 2, 2));  // dilation
  cases.push_back(square_case({1, 13, 13, 8}, 9, 3, 2, 2, 2));
  cases.push_back(square_case({1, 12, 12, 4}, 4, 3, 1, 3, 3));
  // More rows than one band of a weight gradient, uneven in the last, padding at both ends; rows of 16, 8 and neither.
  cases.push_back(square_case({2, 35, 32, 16}, 16, 3, 1, 1));
  cases.push_back(square_case({2, 70, 32, 17}, 9, 3, 2, 1));
  cases.push_back(square_case({2, 71, 8, 16}, 5, 5, 1, 2));
  cases.push_back(square_case({1, 43, 29, 3}, 18, 7, 1, 3));
  cases.push_back(square_case({2, 3, 600, 4}, 7, 3, 1, 2, 2));
  cases.push_back(square_case({70, 3, 4, 17}, 9, 3, 1, 1));  // the last item of a weight gradient has fewer images
  // Tiles of neighbouring pixels: some within a row, some across its end, some of pixels that do not exist.
  cases.push_back(square_case({2, 9, 14, 32}, 32, 3, 1, 1));
  cases.push_back(square_case({2, 5, 24, 8}, 40, 3, 1, 1));
  cases.push_back(square_case({1, 6, 18, 16}, 16, 3, 1, 0));
  cases.push_back(square_case({1, 3, 10, 16}, 16, 3, 1, 1));  // the last tile would pass for one row by its ends
  cases.push_back(square_case({1, 2, 3, 16}, 32, 3, 1, 1));   // so would this one
  for (const int groups : {2, 4}) {
    for (const int64_t width : {1, 3, 8, 16, 17}) {
      cases.push_back(square_case({2, 7, 5, width * groups}, (width + 1) * groups, 3, 1, 1, 1, groups));
      cases.push_back(square_case({2, 7, 5, width * groups}, width * groups, 1, 2, 0, 1, groups));
    }
  }
  for (const int channels : {1, 3, 15, 16, 17, 32, 33, 67}) {  // depthwise
    for (const int stride : {1, 2})
      cases.push_back(square_case({2, 9, 7, channels}, channels, 3, stride, 1, 1, channels));
  }
  cases.push_back(square_case({1, 9, 9, 24}, 24, 5, 1, 2, 1, 24));
  cases.push_back(square_case({1, 9, 9, 16}, 16, 3, 1, 2, 2, 16));
  cases.push_back(square_case({1, 7, 7, 16}, 32, 3, 1, 1, 1, 16));  // two outputs per group
  ConvProblem uneven;
  uneven.x = {2, 9, 14, 6};
  uneven.kernel_h = 1, uneven.kernel_w = 5, uneven.stride_h = 2, uneven.stride_w = 3, uneven.pad_w = 2;
  cases.push_back(conv_case(uneven, 10));
  uneven.kernel_h = 3, uneven.kernel_w = 2, uneven.pad_h = 1, uneven.pad_w = 0, uneven.dilation_h = 2;
  cases.push_back(conv_case(uneven, 18));
  for (int64_t n = 1; n <= 130; ++n) cases.push_back(square_case({n, 1, 1, 1 + 7 * n % 67}, 1 + 11 * n % 35, 1, 1, 0));
  cases.push_back(square_case({3, 1, 1, 512}, 100, 1, 1, 0));  // linear layers as they are
  cases.push_back(square_case({65, 1, 1, 64}, 10, 1, 1, 0));
  for (const int channels : {1, 15, 24, 33, 67}) {  // of EfficientNet
    for (const int stride : {1, 2}) {
      cases.push_back(square_case({2, 9, 7, channels}, channels, 5, stride, 2, 1, channels));
      for (const int kernel : {3, 5}) {
        cases.push_back(same_case({2, 10, 8, channels}, channels, kernel, stride, channels));
        cases.push_back(same_case({2, 9, 12, channels}, channels, kernel, stride, channels));
      }
    }
  }
  for (const int kernel : {1, 2, 3, 4, 5}) {
    for (const int stride : {1, 2, 3}) cases.push_back(same_case({2, 12, 10, 5}, 19, kernel, stride));
  }
  cases.push_back(same_case({2, 32, 32, 3}, 32, 3, 2));     // the first layer of EfficientNet
  cases.push_back(same_case({1, 2, 2, 16}, 16, 5, 2, 16));  // the kernel is larger than the image
  cases.push_back(same_case({40, 4, 4, 17}, 9, 3, 2));      // items of several images
  return cases;
}

}  // namespace octet::test
