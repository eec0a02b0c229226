// What to do where an integer network says less than its training.
#pragma once
#include <string>

#include "src/config/config.h"

namespace octet {

// Of the policy that trained. figure: "top-1", by which networks are compared; both values are shares of 1. Empty: the
// integers lose no more than 0.2 points.
std::string advice(const Config::Policy&, const std::string& figure, double integers, double training);

}  // namespace octet
