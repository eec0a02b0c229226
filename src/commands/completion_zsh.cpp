// `octet help --completion zsh`
#include "kernels/base/text.h"
#include "src/commands/reference.h"

namespace octet {
namespace {

constexpr char zsh_functions[] = R"(
_octet_topic() { _describe -t topics topic _octet_commands -- _octet_keys -- _octet_sections; }

_octet_setting() {
  if compset -P 1 '*='; then
    _octet_value "${${IPREFIX%=}##*=}"
  else
    _describe -t keys 'configuration key' _octet_keys -S =
  fi
}

_octet() {
  local context state state_descr line
  typeset -A opt_args
  _arguments -C '(- *)'{-h,--help}'[Print this help]' '(- *)--version[Print the version]' \
    '1:command:->command' '*::argument:->argument'
  case $state in
    command) _describe -t commands command _octet_commands ;;
    argument) _octet_arguments ;;
  esac
}

if [[ ${funcstack[1]} == _octet ]]; then _octet "$@"; else compdef _octet octet; fi
)";

std::string in_quotes(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string{c};
  return quoted + "'";
}

std::string with_backslashes(const std::string& text, const std::string& before) {
  std::string escaped;
  for (const char c : text) escaped += before.find(c) == std::string::npos ? std::string{c} : std::string{'\\', c};
  return escaped;
}

// An element of a list of _describe.
std::string described(const std::string& name, const std::string& meaning) {
  return "  " + in_quotes(name + ":" + with_backslashes(meaning, "\\")) + "\n";
}

// How _arguments completes a value.
std::string zsh_action(const CLI::Option& option) {
  const Argument argument = argument_of(option);
  const std::string words = joined(argument.choices, " ");
  if (argument.file) return words.empty() ? "_files" : "{_files; compadd " + words + "}";
  if (argument.directory) return "_files -/";
  if (argument.setting) return "_octet_setting";
  if (argument.topic) return "_octet_topic";
  return words.empty() ? " " : "(" + words + ")";
}

std::string zsh_option(const CLI::Option& option) {
  std::string spec = repeats(option) ? "*" : "";
  spec += option.get_name();
  if (takes_value(option)) spec += "=";
  spec += "[" + with_backslashes(option.get_description(), "\\[]") + "]";
  if (takes_value(option)) spec += ":" + option.get_single_name() + ":" + zsh_action(option);
  return in_quotes(spec);
}

std::string zsh_place(const CLI::Option& option, int number) {
  const std::string where = repeats(option) ? "*" : std::to_string(number);
  return in_quotes(where + ":" + option.get_name(true) + ":" + zsh_action(option));
}

std::string zsh_arguments(const CLI::App& all) {
  std::string text = "_octet_arguments() {\n  case $words[1] in\n";
  for (const CLI::App* command : all.get_subcommands({})) {
    text += say("    ", command->get_name(), ")\n      _arguments '(- *)'{-h,--help}'[Print this help]'");
    for (const CLI::Option* option : named_options(*command)) text += " \\\n        " + zsh_option(*option);
    int number = 0;
    for (const CLI::Option* place : places_of(*command)) text += " \\\n        " + zsh_place(*place, ++number);
    text += " ;;\n";
  }
  return text + "  esac\n}\n";
}

std::string zsh_values() {
  std::string text = "_octet_value() {\n  case $1 in\n";
  for (const Key& key : keys()) {
    const std::vector<std::string> choices = choices_of(key);
    if (!choices.empty()) text += say("    ", key.path, ") compadd ", joined(choices, " "), " ;;\n");
    if (takes_text(key)) text += say("    ", key.path, ") _files ;;\n");
  }
  return text + "  esac\n}\n";
}

}  // namespace

std::string zsh_completion(const CLI::App& all) {
  std::string text = "#compdef octet\n# Completion of octet in zsh. Written by `octet help --completion zsh`.\n";
  text += "typeset -ga _octet_commands=(\n";
  for (const CLI::App* command : all.get_subcommands({}))
    text += described(command->get_name(), command->get_description());
  text += ")\ntypeset -ga _octet_keys=(\n";
  for (const Key& key : keys()) text += described(key.path, key.meaning);
  text += ")\ntypeset -ga _octet_sections=(\n" + described("keys", "every key");
  for (const std::string& section : key_sections()) text += described(section, "the keys of this section");
  return text + ")\n\n" + zsh_arguments(all) + zsh_values() + zsh_functions;
}

}  // namespace octet
