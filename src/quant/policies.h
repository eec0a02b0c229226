// One factory per policy file.
#pragma once
#include "src/quant/policy.h"

namespace octet {

std::unique_ptr<Policy> make_unified_int8(const Config::Policy&);
std::unique_ptr<Policy> make_fp32();
std::unique_ptr<Policy> make_dorefa(const Config::Policy&);
std::unique_ptr<Policy> make_wage(const Config::Policy&);
std::unique_ptr<Policy> make_wageubn(const Config::Policy&);
std::unique_ptr<Policy> make_range_bn(const Config::Policy&);
std::unique_ptr<Policy> make_fp8(const Config::Policy&);
std::unique_ptr<Policy> make_psq(const Config::Policy&);
std::unique_ptr<Policy> make_dai8(const Config::Policy&);

}  // namespace octet
