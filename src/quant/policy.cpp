#include "src/quant/policies.h"

namespace octet {

std::unique_ptr<Policy> make_policy(const Config& config) {
  const std::string& name = config.policy.name;
  if (name == "unified_int8") return make_unified_int8(config.policy);
  if (name == "fp32") return make_fp32();
  throw UsageError(__FILE__, __LINE__, say(config.file, ": policy.name `", name, "` is not known"),
                   "use one of: unified_int8, fp32");
}

}  // namespace octet
