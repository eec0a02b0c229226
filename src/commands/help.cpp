// `octet help`, `octet help COMMAND`, `octet help keys`, `octet help KEY`; the manual page and the completion of shells
#include <unistd.h>

#include <iostream>

#include "kernels/base/error.h"
#include "kernels/base/terminal.h"
#include "src/commands/command.h"
#include "src/commands/reference.h"
#include "src/config/spelling.h"

namespace octet {
namespace {

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

struct HelpOptions {
  std::string topic, shell;
  bool man = false;
  bool for_people() const { return !man && shell.empty(); }
};

std::string help_text(const HelpOptions& options, const CLI::App& all) {
  const std::string& topic = options.topic;
  if (options.man) return man_page(all);
  if (!options.shell.empty()) return (options.shell == "bash" ? bash_completion : zsh_completion)(all);
  if (topic == "keys") return describe_keys(known_names(), terminal_columns(STDOUT_FILENO));
  if (topic.empty())  // all.help() would be that of this command
    return all.get_formatter()->make_help(&all, all.get_name(), CLI::AppFormatMode::Normal);
  for (const CLI::App* command : all.get_subcommands({}))
    if (command->get_name() == topic) return command->help("octet") + keys_of_same_name(topic);
  std::string described = describe_key(topic, known_names());  // "train.": of the section alone
  const std::string nearest = described.empty() ? nearest_topic(all, topic) : "";
  REQUIRE_USAGE(!described.empty(), nearest + "use octet help, octet help COMMAND, octet help KEY or octet help keys",
                "there is no help on `", topic, "`");
  return described;
}

}  // namespace

Run help_command(CLI::App& app) {
  const auto options = std::make_shared<HelpOptions>();
  CLI::Option* const topic =
      app.add_option("topic", options->topic,
                     "A command; a configuration key, such as train.lr, or a section of them, such as train. with its "
                     "dot; keys: every key")
          ->type_name("TOPIC");
  CLI::Option* const man = app.add_flag("--man", options->man, "Print the manual page")->excludes(topic);
  app.add_option("--completion", options->shell, "Print a script that completes command lines in this shell")
      ->check(CLI::IsMember({"bash", "zsh"}))
      ->excludes(topic)
      ->excludes(man);
  return [options, &app] {
    const std::string text = help_text(*options, *app.get_parent());
    if (options->for_people())
      print_folded(text);
    else
      std::cout << text;
    return 0;
  };
}

}  // namespace octet
