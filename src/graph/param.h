// What training changes: parameters, and the running statistics of norms.
#pragma once
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace octet {

enum class ParamKind : uint8_t { conv_weight, linear_weight, norm_weight, bias };
constexpr bool is_weight(ParamKind kind) { return kind <= ParamKind::linear_weight; }
enum class Init : uint8_t { kaiming_fan_out, linear_uniform, normal_001, one, zero };

struct Param {
  std::string name;  // torchvision's, for example layer1.0.conv1.weight
  ParamKind kind = ParamKind::conv_weight;
  Shape shape;  // weights OHWI; others (1, 1, 1, C)
  Init init = Init::zero;
  bool spared = false;  // as in UpdateContext
  int node = 0;
  size_t offset = 0;  // in the flat buffers, which lie in backward order

  Tensor master, gradient, velocity;  // f32 views of the plan's flat buffers
  Encoding encoding;                  // s8: the layer runs on `codes`, encoded anew from `master` each step
  QTensor codes;
  const float* lr_scale = nullptr;  // kept by the ClipCoordinator; null means 1

  QTensor operand() const { return encoding.quantized() ? codes : QTensor{master}; }
};

// Not trained, but saved: bn1.running_mean, bn1.running_var. Identical on every rank.
struct Statistic {
  std::string name;
  Tensor tensor;             // (1, 1, 1, C) f32
  bool of_training = false;  // evaluation does without: in checkpoints, not in files of weights
};

}  // namespace octet
