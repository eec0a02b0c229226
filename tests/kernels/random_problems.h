// Random problems beside the fixed lists. The name of each case contains the seed, and OCTET_TEST_SEED=N repeats it.
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/layer_cases.h"
#include "tests/kernels/cases.h"

namespace octet::test {

// The numbers of problem `index` of a kind.
class Draw {
 public:
  Draw(uint32_t kind, int index) : kind_(kind), index_(index) {}
  int64_t between(int64_t least, int64_t most) {
    return least + philox(count_++, static_cast<uint32_t>(index_), kind_, run_seed()).word[0] % (most - least + 1);
  }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<int64_t>(values.size()) - 1)];
  }
  bool coin() { return between(0, 1) == 1; }
  // Every second time around a multiple of a vector.
  int64_t channels(int64_t most) {
    return coin() ? between(1, most) : std::min(most, std::max<int64_t>(1, 16 * between(1, 8) + between(-1, 1)));
  }
  int kernel() { return one_of({1, 1, 3, 3, 3, 2, 4, 5, 7}); }
  Shape shape() { return {between(1, 5), between(1, 40), between(1, 40), channels(130)}; }
  uint32_t seed() { return static_cast<uint32_t>(between(0, 1 << 30)); }
  std::string name(const std::string& what) const {
    return say("problem ", index_, " of OCTET_TEST_SEED=", run_seed(), ", ", what);
  }

 private:
  const uint32_t kind_;
  const int index_;
  uint64_t count_ = 0;
};

inline std::vector<ConvCase> random_conv_cases(int count) {
  constexpr int64_t most_products = 1'000'000;  // of the plain loops
  std::vector<ConvCase> cases;
  for (int index = 0; static_cast<int>(cases.size()) < count; ++index) {
    Draw draw(1, index);
    ConvProblem p;
    const bool depthwise = draw.between(0, 4) == 0;
    p.kernel_h = draw.kernel(), p.kernel_w = draw.coin() ? p.kernel_h : draw.kernel();
    p.stride_h = static_cast<int>(draw.between(1, 3)), p.stride_w = draw.coin() ? p.stride_h : 1;
    p.dilation_h = draw.one_of({1, 1, 1, 2, 3}), p.dilation_w = draw.coin() ? p.dilation_h : 1;
    p.pad_h = static_cast<int>(draw.between(0, p.kernel_h)), p.pad_w = static_cast<int>(draw.between(0, p.kernel_w));
    p.x = {draw.between(1, 4), draw.between(1, 20), draw.between(1, 20), 0};
    p.groups = depthwise ? static_cast<int>(draw.channels(100)) : draw.one_of({1, 1, 1, 2, 3});
    p.x.c = depthwise ? p.groups : p.groups * draw.channels(130 / p.groups);
    const int64_t outputs = depthwise ? p.groups : p.groups * draw.channels(130 / p.groups);
    ConvCase c = conv_case(p, outputs);
    if (draw.between(0, 4) == 0) {  // "SAME" padding
      const Padded rows = same_padding(p.x.h, p.kernel_h, p.stride_h, p.dilation_h),
                   columns = same_padding(p.x.w, p.kernel_w, p.stride_w, p.dilation_w);
      c.problem.y.h = rows.out, c.problem.y.w = columns.out, c.problem.pad_h = rows.pad, c.problem.pad_w = columns.pad;
      c.name += " with SAME padding";
    }
    c.name = draw.name(c.name);
    if (c.problem.y.elements() > 0 && c.problem.products() <= most_products) cases.push_back(c);
  }
  return cases;
}

// The layers of networks that plain loops can compute in a test, of one image.
inline std::vector<ConvCase> network_cases() {
  std::vector<ConvCase> cases;
  for (const LayerCase& layer : layer_cases) {
    const ConvProblem p = layer.problem(1);
    if (p.products() <= 10'000'000) cases.push_back({layer.name, p});
  }
  return cases;
}

}  // namespace octet::test
