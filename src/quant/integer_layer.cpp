#include "src/quant/integer_layer.h"

#include <algorithm>
#include <cmath>

namespace octet {
namespace {

constexpr int factor_bits = 22;    // significant bits of a factor, see Requantization
constexpr int residual_bits = 44;  // of a residual's factor, counted down from its highest

double rounded_to(double x, double quantum) { return std::nearbyint(x / quantum) * quantum; }
int exponent_of(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return exponent;
}

}  // namespace

void set_factors(IntegerLayer& layer, float residual) {
  layer.factor.clear(), layer.residual_factor.clear();
  for (const float weight_scale : layer.weight_scale) {
    const double product = double(layer.input_scale) * weight_scale;
    if (layer.output == DType::f32) {
      layer.factor.push_back(product);
      continue;
    }
    const double factor = product / layer.scale, residual_factor = double(residual) / layer.scale;
    double quantum = std::ldexp(1.0, exponent_of(factor) - factor_bits);
    if (residual > 0) quantum = std::max(quantum, std::ldexp(1.0, exponent_of(residual_factor) - residual_bits));
    layer.factor.push_back(rounded_to(factor, quantum));
    if (residual > 0) layer.residual_factor.push_back(rounded_to(residual_factor, quantum));
  }
}

void set_bounds(IntegerLayer& layer, Activation activation) {
  if (layer.output == DType::f32) return;
  const bool positive = layer.output == DType::u8;
  layer.highest = positive ? 255 : 127;
  layer.lowest = positive || activation != Activation::none ? 0 : -layer.highest;
  if (activation == Activation::relu6)
    layer.highest = std::min(layer.highest, int(std::nearbyint(6 / double(layer.scale))));
}

}  // namespace octet
