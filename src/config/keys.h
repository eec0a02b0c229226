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
  std::string meaning;                    // one line, for people
  double low = 0, high = 0;               // numbers: the range, both ends included
  std::vector<std::string> allowed = {};  // strings: the allowed values; empty: any
  bool may_be_automatic = false;          // integers: `auto` is the value 0
};

const std::vector<Key>& keys();
const Key* find_key(std::string_view path);  // null: unknown
bool is_section(std::string_view path);      // "train", "policy.bits"
// A hint for an unknown path: "nearest: `train.lr`", or, where no key is near, "`train` has epochs, steps, ...".
std::string hint_for(std::string_view path);
// The values of a key: "integer 2 .. 8", "bf16 | f32", "true | false", "text of one line".
std::string domain_of(const Key&);
std::string default_text(const Key&);  // as YAML has it
bool takes_list(const Key&);
// Writes the value. texts: one, or any number for a list. False, and nothing written: they are not in the key's domain.
bool assign(const Key&, Config&, const std::vector<std::string>& texts);

// Keys with their values as text, which tell runs apart: those that differ from the defaults, and network, data,
// policy, batch and learning rate.
std::vector<std::pair<std::string, std::string>> told_apart_by(const Config&);

// The keys whose values are not equal in all, with the value in each.
std::vector<std::pair<std::string, std::vector<std::string>>> differences(std::vector<Config>);

struct Difference {
  std::string before, now;  // "train.lr: 0.1"
};
// The first key whose value differs and for which `matters` is true.
std::optional<Difference> first_difference(const Config& before, const Config& now,
                                           const std::function<bool(std::string_view path)>& matters);

}  // namespace octet
