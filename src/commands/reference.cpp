#include "src/commands/reference.h"

#include <algorithm>

#include "kernels/backend.h"
#include "kernels/base/text.h"
#include "src/data/loader.h"
#include "src/models/backbone.h"
#include "src/models/models.h"
#include "src/quant/policy.h"

namespace octet {

std::map<std::string, std::vector<std::string>> known_names() {
  return {{"model.name", model_names()},
          {"model.backbone", backbone_names()},
          {"policy.name", policy_names()},
          {"data.name", data_source_names()},
          {"backend.isa", isa_names()}};
}

std::vector<std::string> choices_of(const Key& key) {
  Config defaults;  // never written
  if (std::holds_alternative<bool*>(key.field(defaults))) return {"true", "false"};
  const auto names = known_names();
  const auto named = names.find(key.path);
  return named == names.end() ? key.allowed : named->second;
}

bool takes_text(const Key& key) {
  Config defaults;  // never written
  return std::holds_alternative<std::string*>(key.field(defaults)) && choices_of(key).empty();
}

std::vector<std::string> key_sections() {
  std::vector<std::string> sections;
  for (const Key& key : keys())
    for (size_t dot = key.path.find('.'); dot != std::string::npos; dot = key.path.find('.', dot + 1)) {
      const std::string section = key.path.substr(0, dot);
      if (std::ranges::find(sections, section) == sections.end()) sections.push_back(section);
    }
  return sections;
}

std::vector<const CLI::Option*> named_options(const CLI::App& of) {
  return of.get_options(
      [&](const CLI::Option* option) { return option->nonpositional() && option != of.get_help_ptr(); });
}

std::vector<const CLI::Option*> places_of(const CLI::App& of) {
  return of.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

bool repeats(const CLI::Option& option) { return option.get_expected_max() >= CLI::detail::expected_max_vector_size; }

Argument argument_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  Argument argument{.file = type.starts_with("FILE") || type == "PATH",
                    .directory = type == "DIR",
                    .setting = type == "KEY=VALUE",
                    .topic = type == "TOPIC"};
  const size_t open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return argument;
  for (size_t at = open + 1; at < close;) {
    const size_t end = std::min(type.find(',', at), close);
    const size_t first = type.find_first_not_of(' ', at);
    argument.choices.push_back(type.substr(first, end - first));
    at = end + 1;
  }
  return argument;
}

}  // namespace octet
