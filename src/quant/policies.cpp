#include <algorithm>

#include "src/config/keys.h"
#include "src/quant/policy.h"

namespace octet {

// To add a policy, write its file, declare its factory here, and add a row below.
using Make = std::unique_ptr<Policy>(const Config&);
Make make_unified_int8, make_fp32, make_dorefa, make_wage, make_wageubn, make_range_bn, make_fp8, make_psq, make_dai8;

namespace {

struct Row {
  const char* name;
  Make* make;
  std::vector<std::string_view> reads = {};  // prefixes of the keys under `policy.` that it reads
  bool own_update = false;                   // update() supports no Nesterov momentum
  bool storage = false;                      // supports the key `storage`; the others keep f32
};

const std::vector<Row>& rows() {
  const std::vector<std::string_view> common = {"bits.", "quantize_"};
  static const std::vector<Row> table = {
      {.name = "unified_int8", .make = make_unified_int8, .reads = {""}, .storage = true},
      {.name = "fp32", .make = make_fp32},
      {.name = "dorefa", .make = make_dorefa, .reads = common},
      {.name = "wage", .make = make_wage, .reads = common, .own_update = true},
      {.name = "wageubn", .make = make_wageubn, .reads = common, .own_update = true},
      {.name = "range_bn", .make = make_range_bn, .reads = common},
      {.name = "fp8", .make = make_fp8, .reads = common, .own_update = true},
      {.name = "psq", .make = make_psq, .reads = common},
      {.name = "dai8", .make = make_dai8, .reads = common}};
  return table;
}

const Row& row_of(const Config& config) {
  const auto row = std::ranges::find(rows(), config.policy.name, &Row::name);
  if (row != rows().end()) return *row;
  throw UsageError(__FILE__, __LINE__, say(config.file, ": policy.name `", config.policy.name, "` is not known"),
                   "use one of: " + joined(policy_names(), ", "));
}

// A key that the policy does not read is an error; it would have no effect.
void check_keys(const Config& config, const Row& row) {
  const auto ignored = first_difference(Config{}, config, [&](std::string_view path) {
    constexpr std::string_view section = "policy.";
    if (!path.starts_with(section) || path == "policy.name") return false;
    path.remove_prefix(section.size());
    return std::ranges::none_of(row.reads, [&](std::string_view read) { return path.starts_with(read); });
  });
  REQUIRE_USAGE(!ignored, say("leave it out, or set ", ignored->before), config.file, ": policy ", row.name,
                " does not read `", ignored->now, "`");
  REQUIRE_USAGE(row.storage || config.storage != "int8", "leave storage out", config.file, ": policy ", row.name,
                " keeps f32; `storage: int8` is for unified_int8");
  REQUIRE_USAGE(!row.own_update || !config.train.nesterov, "set train.nesterov: false", config.file, ": policy ",
                row.name, " has an update of its own, without Nesterov's momentum");
  REQUIRE_USAGE(!row.own_update || config.train.optimizer == "sgd", "set train.optimizer: sgd", config.file,
                ": policy ", row.name, " has an update of its own");
}

}  // namespace

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const Row& row : rows()) names.push_back(row.name);
  return names;
}

std::unique_ptr<Policy> make_policy(const Config& config) {
  const Row& row = row_of(config);
  check_keys(config, row);
  return row.make(config);
}

DType storage_of(const Config& config) {
  if (!row_of(config).storage || config.storage == "f32") return DType::f32;
  return config.storage == "int8" ? DType::s8 : DType::bf16;
}

}  // namespace octet
