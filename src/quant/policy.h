// What is quantized, and how. One file per policy.
#pragma once
#include <memory>
#include <string>

#include "kernels/backend.h"
#include "src/config/config.h"

namespace octet {

// Who asks for random bits, and what is being encoded. site = node * 8 + role.
enum class Role : uint8_t { weight, activation, error, exchange };

struct Site {
  int node = 0;
  bool first = false, last = false;  // position in the network: many policies spare the ends
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string name() const = 0;
  // Whether this convolution or linear layer runs on codes.
  virtual bool quantizes(const Site&) const = 0;
  // Encoding of a weight, of an activation that a quantized layer reads, or of the error of a quantized layer.
  virtual Encoding encoding(Role) const = 0;
  // Errors are clipped at values the ClipCoordinator holds (Range::held).
  virtual bool needs_clips() const = 0;
  // The weight gradient reads the error before it is quantized.
  virtual bool real_weight_gradient() const = 0;
  virtual RealConvolution real_convolution() const = 0;
};
std::unique_ptr<Policy> make_policy(const Config&);  // an explicit table

}  // namespace octet
