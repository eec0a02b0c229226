// One factory per policy file.
#pragma once
#include "src/quant/policy.h"

namespace octet {

std::unique_ptr<Policy> make_unified_int8(const Config::Policy&);
std::unique_ptr<Policy> make_fp32();

}  // namespace octet
