// What the optimizers and the running statistics of norms need to know of a step.
#pragma once
#include "kernels/operations.h"

namespace octet {

struct SgdProblem {
  float learning_rate = 0.1f, momentum = 0.9f, decay = 0;
  bool nesterov = false;
  float rate_factor = 1;  // of the learning rate, for this parameter
  float rate() const { return learning_rate * rate_factor; }
};
// Weight update of one parameter, as in PyTorch: v = momentum * v + (g + decay * w);  w -= rate() * lr_scale * v. With
// nesterov the last factor is g + decay * w + momentum * v. lr_scale: the layer's phi(d_c), or null for 1.
struct SgdStep {
  SgdProblem problem;
  Tensor w, gradient, velocity;  // f32 of one shape
  const float* lr_scale = nullptr;
};

// What AdamW divides its means by in the step t = 1, 2, ...: 1 - beta1^t, and the square root of 1 - beta2^t.
struct AdamWCorrections {
  float mean = 1, root = 1;
};
struct AdamWProblem {
  float learning_rate = 1e-3f, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f, decay = 0;
  float rate_factor = 1;  // of the learning rate, for this parameter
  AdamWCorrections corrections = {};
};
// Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019, as PyTorch computes it:
// m += (1 - beta1) * (g - m);  v = beta2 * v + (1 - beta2) * g * g;
// w = w * (1 - rate * decay) - rate / corrections.mean * m / (sqrt(v) / corrections.root + epsilon)
// with rate = learning_rate * rate_factor * lr_scale; lr_scale: the layer's phi(d_c), or null for 1.
struct AdamWStep {
  AdamWProblem problem;
  Tensor w, gradient, mean, square;  // f32 of one shape; m and v
  const float* lr_scale = nullptr;
};

// Running statistics of one norm: running = (1 - momentum) * running + momentum * batch; the variance is corrected by
// count / (count - 1). mean, variance: f32 of one shape.
struct RunningStep {
  Moments batch;
  int64_t count = 0;
  float momentum = 0;
  Tensor mean, variance;
  float correction() const {
    return count > 1 ? static_cast<float>(static_cast<double>(count) / static_cast<double>(count - 1)) : 1.0f;
  }
};

}  // namespace octet
