// The terms of the sigmoid loss for one instruction set: doubles, as many at a time as its vectors hold.
#pragma once
#include "kernels/shared/losses.h"

namespace octet::cpu {

struct SigmoidTerms {
  // losses[i] and slopes[i] = sigmoid_term() of logits[i] whose answer is no. Index: the value of Focus.
  void (*of_no[3])(const float* logits, int64_t count, double weight, double gamma, double* losses, double* slopes);
};

}  // namespace octet::cpu
