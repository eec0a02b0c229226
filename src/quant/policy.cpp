#include "src/quant/policies.h"

namespace octet {

std::unique_ptr<Policy> make_policy(const Config& config) {
  const std::string& name = config.policy.name;
  if (name == "unified_int8") return make_unified_int8(config.policy);
  if (name == "fp32") return make_fp32();
  if (name == "dorefa") return make_dorefa(config.policy);
  if (name == "wage") return make_wage(config.policy);
  if (name == "wageubn") return make_wageubn(config.policy);
  if (name == "range_bn") return make_range_bn(config.policy);
  if (name == "fp8") return make_fp8(config.policy);
  if (name == "psq") return make_psq(config.policy);
  if (name == "dai8") return make_dai8(config.policy);
  throw UsageError(__FILE__, __LINE__, say(config.file, ": policy.name `", name, "` is not known"),
                   "use one of: unified_int8, fp32, dorefa, wage, wageubn, range_bn, fp8, psq, dai8");
}

}  // namespace octet
