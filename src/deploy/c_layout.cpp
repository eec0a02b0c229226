// The numbers of a network in C: factors as integers with a shift, codes of pixels, and where tensors lie.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/base/error.h"
#include "src/deploy/c_source.h"
#include "src/graph/arena.h"

namespace octet {
namespace {

constexpr int most_shift = 62;
constexpr int logit_bits = 30;         // of the largest logit, and of a factor
constexpr int most_logit_places = 24;  // behind the binary point

// The least shift with which x 2^shift is an integer; 0 has none.
int places_of(double x) {
  if (x == 0) return std::numeric_limits<int>::min();
  int exponent = 0;
  auto mantissa = int64_t(std::ldexp(std::frexp(x, &exponent), 53));
  int places = 53 - exponent;
  for (; mantissa % 2 == 0; mantissa /= 2) --places;
  return places;
}

}  // namespace

CFactors c_factors(const std::string& name, const IntegerLayer& layer) {
  CFactors all;
  for (size_t c = 0; c < layer.factor.size(); ++c) {
    double factor = layer.factor[c];
    const double shortcut = layer.residual_factor.empty() ? 0 : layer.residual_factor[c];
    // A sum below 2^31 then rounds to 0.
    if (shortcut == 0 && std::abs(factor) < std::ldexp(1.0, -40)) factor = 0;
    const int shift = std::max({1, places_of(factor), places_of(shortcut)});
    REQUIRE_USAGE(shift <= most_shift && std::abs(std::ldexp(factor, shift)) < 0x1p31 &&
                      std::abs(std::ldexp(shortcut, shift)) < 0x1p53,
                  "train it longer, or calibrate it on other images", "'", name, "' has no form in C: channel ", c,
                  " is scaled by ", factor, shortcut != 0 ? say(", and its shortcut by ", shortcut) : "");
    all.factor.push_back(int32_t(std::ldexp(factor, shift)));
    if (!layer.residual_factor.empty()) all.shortcut_factor.push_back(int64_t(std::ldexp(shortcut, shift)));
    all.shift.push_back(uint8_t(shift));
  }
  return all;
}

CLogits c_logits(const IntegerOperation& last) {
  const IntegerLayer& layer = last.layer;
  const size_t products = layer.weights.size() / layer.bias.size();
  double largest = 0;  // that a logit can be
  for (size_t c = 0; c < layer.bias.size(); ++c) {
    double sum = std::abs(double(layer.bias[c]));
    for (size_t i = 0; i < products; ++i) sum += 255 * std::abs(double(layer.weights[c * products + i]));
    largest = std::max(largest, sum * layer.factor[c]);
  }
  int exponent = 0;
  std::frexp(largest, &exponent);
  const int places = std::min(most_logit_places, logit_bits - exponent);
  CLogits logits;
  logits.scale = std::ldexp(1.0, -places);
  IntegerLayer scaled;
  for (const double factor : layer.factor) {
    const double exact = factor / logits.scale;
    std::frexp(exact, &exponent);
    const double quantum = std::ldexp(1.0, exponent - logit_bits);
    scaled.factor.push_back(std::nearbyint(exact / quantum) * quantum);
  }
  logits.factors = c_factors(last.name, scaled);
  return logits;
}

std::array<std::array<int8_t, 256>, 3> codes_of_pixels(const IntegerNetwork& network) {
  std::array<std::array<int8_t, 256>, 3> codes{};
  const PixelScale by = network.pixels.pixels();
  const float inverse_scale = inverse_scale_of(network.input_range, network.input_highest);
  for (int c = 0; c < 3; ++c)
    for (int byte = 0; byte < 256; ++byte) {
      const uint8_t pixel[pixel_channels] = {uint8_t(byte), uint8_t(byte), uint8_t(byte), 255};
      codes[size_t(c)][size_t(byte)] = int8_t(
          encode_nearest(pixel_value(by, pixel, c), inverse_scale, -network.input_highest, network.input_highest));
    }
  return codes;
}

// A shortcut that nothing reads afterwards gives its memory to the sum.
CBuffer c_buffer(const IntegerNetwork& network) {
  const size_t tensors = network.tensors.size();
  std::vector<int> last(tensors, 0);
  for (int i = 0; i < int(network.operations.size()); ++i)
    for (const int input : network.operations[size_t(i)].inputs) last[size_t(input)] = i + 1;
  std::vector<MemoryBlock> blocks = {{size_t(network.tensors[0].shape.elements()), 0, last[0]}};
  std::vector<size_t> block_of(tensors, 0);
  for (int i = 0; i < int(network.operations.size()); ++i) {
    const IntegerOperation& operation = network.operations[size_t(i)];
    const auto output = size_t(operation.output);
    if (network.tensors[output].type == DType::f32) continue;
    const std::vector<int>& inputs = operation.inputs;
    if (operation.kind == IntegerOperation::Kind::convolution && inputs.size() > 1 && inputs[1] != inputs[0] &&
        last[size_t(inputs[1])] == i + 1) {
      block_of[output] = block_of[size_t(inputs[1])];
      blocks[block_of[output]].last = std::max(i + 1, last[output]);
      continue;
    }
    block_of[output] = blocks.size();
    blocks.push_back({size_t(network.tensors[output].shape.elements()), i + 1, std::max(i + 1, last[output])});
  }
  CBuffer buffer;
  buffer.bytes = place_blocks(blocks, false);
  for (size_t i = 0; i < tensors; ++i) buffer.offset.push_back(blocks[block_of[i]].offset);
  return buffer;
}

}  // namespace octet
