#include "src/config/keys.h"
#include "src/quant/policies.h"

namespace octet {
namespace {

// What a policy does not read would be ignored in silence.
void check_keys(const Config& config) {
  const std::string& name = config.policy.name;
  if (name != "unified_int8") {
    const auto ignored = first_difference(Config{}, config, [&](std::string_view path) {
      const bool read = path.starts_with("policy.bits.") || path.starts_with("policy.quantize_");
      return path.starts_with("policy.") && path != "policy.name" && !(read && name != "fp32");
    });
    REQUIRE_USAGE(!ignored, say("leave it out, or set ", ignored->before), config.file, ": policy ", name,
                  " does not read `", ignored->now, "`");
    REQUIRE_USAGE(config.storage != "int8", "leave storage out", config.file, ": policy ", name,
                  " keeps f32; `storage: int8` is for unified_int8");
  }
  const bool own_update = name == "wage" || name == "wageubn" || name == "fp8";
  REQUIRE_USAGE(!own_update || !config.train.nesterov, "set train.nesterov: false", config.file, ": policy ", name,
                " has an update of its own, without Nesterov's momentum");
  REQUIRE_USAGE(name != "wage" || (config.train.momentum == 0 && config.train.decay == 0),
                "set train.momentum: 0 and train.decay: 0; its learning rate begins at 8", config.file,
                ": policy wage has an update of its own, without momentum and decay");
}

}  // namespace

std::unique_ptr<Policy> make_policy(const Config& config) {
  check_keys(config);
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
