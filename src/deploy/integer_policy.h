// The policy of an integer network: it trains nothing, and every activation but the logits is codes.
#pragma once
#include "src/quant/integer_layer.h"
#include "src/quant/policy.h"

namespace octet {

class IntegerPolicy final : public Policy {
 public:
  explicit IntegerPolicy(IntegerLayers layers)
      : Policy({.name = "integer", .quantizes_first = true, .quantizes_last = true}), layers_(std::move(layers)) {}
  const IntegerLayers* integers() const override { return &layers_; }
  // Only the first node encodes by it; the layers write the codes that their constants say.
  Encoding encoding(Role role) const override {
    Encoding encoding{
        .dtype = DType::s8, .qmax = layers_.input_highest, .range = Range::held, .held = &layers_.input_range};
    if (role == Role::positive_activation) encoding.dtype = DType::u8, encoding.qmax = 255;
    return encoding;
  }

 private:
  const IntegerLayers layers_;
};

}  // namespace octet
