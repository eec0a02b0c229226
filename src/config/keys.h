// The one table of configuration keys. Parsing, checking, to_yaml() and describe_keys() all read it.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/config/config.h"

namespace octet {

using Field = std::variant<bool*, int64_t*, double*, std::string*, std::vector<int64_t>*, std::vector<double>*>;

struct Key {
  std::string path;                       // "train.lr": also where the value lies in Config
  Field (*field)(Config&);                // that value
  double low = 0, high = 0;               // numbers: the range, both ends included
  std::vector<std::string> allowed = {};  // strings: the allowed values; empty: any
  std::string meaning;                    // one line, for people
};

const std::vector<Key>& keys();
const Key* find_key(std::string_view path);  // null: unknown
bool is_section(std::string_view path);      // "train", "policy.bits"
// What an unknown path may mean: "nearest: `train.lr`", or, where nothing is near, "`train` has epochs, steps, ...".
std::string hint_for(std::string_view path);
// What the key takes: "integer 2 .. 8", "bf16 | f32", "true | false", "text".
std::string domain_of(const Key&);
bool takes_list(const Key&);
// Writes the value; false (and nothing written) when `texts` is not in the key's domain. One text, or any number for a
// list.
bool assign(const Key&, Config&, const std::vector<std::string>& texts);

struct Difference {
  std::string before, now;  // "train.lr: 0.1"
};
// The first key for which the values differ, of those that matter.
std::optional<Difference> first_difference(const Config& before, const Config& now,
                                           const std::function<bool(std::string_view path)>& matters);

}  // namespace octet
