// `octet help`, `octet help COMMAND`, `octet help keys` and `octet help KEY`
#include <unistd.h>

#include <map>

#include "kernels/backend.h"
#include "kernels/base/error.h"
#include "kernels/base/terminal.h"
#include "src/commands/command.h"
#include "src/config/keys.h"
#include "src/config/spelling.h"
#include "src/data/loader.h"
#include "src/models/backbone.h"
#include "src/models/models.h"
#include "src/quant/policy.h"

namespace octet {
namespace {

// The values of keys whose names are in tables of other folders.
std::map<std::string, std::vector<std::string>> known_names() {
  return {{"model.name", model_names()},
          {"model.backbone", backbone_names()},
          {"policy.name", policy_names()},
          {"data.name", data_source_names()},
          {"backend.isa", isa_names()}};
}

// Where the topic is neither a command nor a key: what was perhaps meant.
std::string nearest_topic(const CLI::App& all, const std::string& topic) {
  if (topic.find('.') != std::string::npos) return hint_for(topic) + "; ";
  std::vector<std::string> words = {"keys"};
  for (const CLI::App* command : all.get_subcommands({})) words.push_back(command->get_name());
  for (const Key& key : keys())
    for (size_t at = 0, end = 0; end != std::string::npos; at = end + 1) {
      end = key.path.find('.', at);
      words.push_back(key.path.substr(at, end - at));
    }
  const std::string nearest = nearest_word(topic, words);
  return nearest.empty() ? "" : "nearest: `" + nearest + "`; ";
}

// A command and a section of keys may have one name.
std::string keys_of_same_name(const std::string& topic) {
  return is_section(topic) ? say("\nThe configuration keys ", topic, ".*: `octet help ", topic, ".`\n") : "";
}

}  // namespace

Run help_command(CLI::App& app) {
  const auto topic = std::make_shared<std::string>();
  app.add_option("topic", *topic,
                 "A command; a configuration key, such as train.lr, or a section of them, such as train. with its "
                 "dot; keys: every key");
  return [topic, &app] {
    const CLI::App& all = *app.get_parent();
    if (*topic == "keys") {
      print_folded(describe_keys(known_names(), terminal_columns(STDOUT_FILENO)));
      return 0;
    }
    const auto commands = all.get_subcommands([&](const CLI::App* command) { return command->get_name() == *topic; });
    const CLI::App* command = topic->empty() ? &all : commands.empty() ? nullptr : commands.front();
    if (command != nullptr) {
      print_folded(command->help(topic->empty() ? "" : "octet") + keys_of_same_name(*topic));
      return 0;
    }
    const std::string described = describe_key(*topic, known_names());  // "train.": of the section alone
    const std::string nearest = described.empty() ? nearest_topic(all, *topic) : "";
    REQUIRE_USAGE(!described.empty(), nearest + "use octet help, octet help COMMAND, octet help KEY or octet help keys",
                  "there is no help on `", *topic, "`");
    print_folded(described);
    return 0;
  };
}

}  // namespace octet
