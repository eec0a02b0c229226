// Checks that kernels call themselves. Those of a call's tensors are in kernels/backend.cpp.
#pragma once
#include <string_view>

#include "kernels/backend.h"
#include "kernels/shared/sums.h"

namespace octet {

// A weight gradient of codes adds the products of at least one image in int32. Call this check when a network is
// declared: the kernels call it too, but they first run in the middle of a step. A 1x1 convolution of stride 1 without
// padding has no limit.
inline void check_weight_gradient(const ConvProblem& problem, DType x, std::string_view layer = "a convolution") {
  const ConvProblem p = as_pixel_list(problem);
  REQUIRE_USAGE(is_real(x) || p.y.h * p.y.w <= products_per_sum(x), "train on smaller images",
                "the weight gradient of ", layer, " with a ", p.y.h, "x", p.y.w, " output needs int32 sums of ",
                p.y.h * p.y.w, " products; ", products_per_sum(x), " fit");
}

inline void check_label(int64_t row, int64_t label, int64_t most, const char* of) {
  REQUIRE(label >= -1 && label <= most, "give labels that the loss allows, see kernels/operations.h", of, " ", row,
          " has label ", label, "; the largest is ", most);
}
}  // namespace octet
