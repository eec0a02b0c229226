// The constants of an integer network: what its convolutions, linear layers and means compute with.
// docs/integer-network.md has the arithmetic, and src/deploy makes these from a trained network.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/operations.h"

namespace octet {

struct IntegerLayer {
  std::vector<int8_t> weights;  // OHWI
  // By output channel; of no residual: no residual factors. See Requantization.
  std::vector<int32_t> bias;
  std::vector<double> factor, residual_factor;
  int lowest = -127, highest = 127;  // codes of the output
  DType output = DType::s8;          // f32: logits
  float scale = 1;                   // of the output's codes
  // How the codes above stand for real numbers: those of the input and of each channel's weights.
  float input_scale = 1;
  std::vector<float> weight_scale;
  bool operator==(const IntegerLayer&) const = default;
};

// Sets the factors that follow from the scales. residual: the scale of the shortcut's codes; 0: there is none.
void set_factors(IntegerLayer&, float residual = 0);
// Sets the codes between which the activation leaves an output of 8 bits, or nothing for logits.
void set_bounds(IntegerLayer&, Activation);

struct IntegerLayers {
  std::map<std::string, IntegerLayer> by_node;
  float input_range = 0;           // of a normalized pixel, whose codes are s8
  int input_highest = 127;         // of these codes
  std::vector<std::string> notes;  // what is not as the training computes it, for people
};

}  // namespace octet
